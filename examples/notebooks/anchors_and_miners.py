# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # Anchors and miners
# A client of a round is an anchor with probability p: it sends one large-batch gradient, which is cached. Otherwise it
# is a miner: it walks K steps, steered by the mean of all cached gradients. Few anchors leave old caches; many leave
# nobody to walk. The theory says which p is best.

# %%
import matplotlib.pyplot as plt

import fedamd
from fedamd.theory import optimal_nonconvex

clients, cohort = 40, 10
best = optimal_nonconvex(cohort)
print(f"p* = {best:.3f} for cohorts of {cohort}")

# %%
problem = {"data": {"name": "digits"}, "partition": {"name": "classes", "classes_per_client": 2}}
problem |= {"clients": clients, "cohort": cohort, "rounds": 40, "evaluate_every": 2}
results = {p: fedamd.run(algorithm=fedamd.FedAMD(p=p, eta_l=0.05), **problem) for p in (0.1, 0.5, best, 0.95)}

# %%
for p, result in results.items():
    evaluated = [record for record in result.metrics if "accuracy" in record.metrics]
    rounds = [record.round + 1 for record in evaluated]
    plt.plot(rounds, [record.metrics["accuracy"] for record in evaluated], label=f"p = {p:.2f}")
plt.xlabel("round")
plt.ylabel("test accuracy")
plt.legend()
plt.show()

# %% [markdown]
# Rounds are not all that counts: an anchor's large batch and a miner's two gradients a sample cost differently.

# %%
for p, result in results.items():
    summary = result.summary
    print(f"p = {p:.2f}: {summary['final_accuracy']:.1%}, {summary['gradient_samples']:,} sample gradients")
