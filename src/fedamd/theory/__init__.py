"""The paper's theory as functions: bounds, optimal probabilities, learning rates, estimation of constants, the planner.

The theorems live in one module each and share their verbs (`rates`, `rounds`, `bound`, `proved`):
`sequential`, `sequential_full`, `constant`, `constant_pl`.
"""

from fedamd.theory.costs import Speeds
from fedamd.theory.estimate import Estimates, estimate_constants
from fedamd.theory.intervals import Estimate
from fedamd.theory.methods import TABLE1, Table1Method
from fedamd.theory.outline import outline
from fedamd.theory.planner import Plan, PlanEntry, plan
from fedamd.theory.plot import plot_cost
from fedamd.theory.probability import optimal_nonconvex, optimal_pl
from fedamd.theory.problem import Problem, Proved, Rates, Setting
from fedamd.theory.resolve import complete_rates, theory_rates

__all__ = [
    "TABLE1",
    "Estimate",
    "Estimates",
    "Plan",
    "PlanEntry",
    "Problem",
    "Proved",
    "Rates",
    "Setting",
    "Speeds",
    "Table1Method",
    "complete_rates",
    "estimate_constants",
    "optimal_nonconvex",
    "optimal_pl",
    "outline",
    "plan",
    "plot_cost",
    "theory_rates",
]
