"""Theory against measurement: rounds to ε on problems with known constants, beside what the theorems say of them.

problems.py     the problems: a quadratic, and a smooth non-convex function that gradient descent finds hard
trajectory.py   runs in lockstep, and from their models ‖∇F(x_t)‖², F(x_t) − F* and rounds to ε
results.py      what a study finds: a table, a figure, and verdicts on declared expectations
protocol.py     what all studies share: sizes of a round, how long to watch, arms at the theorems' rates
accuracy.py     studies over ε: non-convex, PL, FedAvg beside them
schedules.py    studies over p, τ and A
batch.py        the study over b
rates.py        the study over the learning rate
studies.py      all of them at once
page.py         the page, its figures and its numbers
"""
