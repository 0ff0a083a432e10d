# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # First steps
# A notebook kept as text: open it in VS Code, or in Jupyter with Jupytext. It trains FedAMD on scikit-learn's digits,
# dealt out so that a client has two classes, compares it with FedAvg and SCAFFOLD, and looks at what each client gets.

# %%
import matplotlib.pyplot as plt

import fedamd

problem = {
    "data": {"name": "digits"},
    "partition": {"name": "classes", "classes_per_client": 2},
    "clients": 40,
    "cohort": 10,
    "rounds": 40,
    "evaluate_every": 2,
}
result = fedamd.run(algorithm=fedamd.FedAMD(eta_l=0.05), progress=True, **problem)
print(f"{result.summary['final_accuracy']:.1%} after {result.summary['rounds']} rounds")

# %% [markdown]
# The trained model is an ordinary module, and the records are one object a round.

# %%
print(result.model)
evaluated = [record for record in result.metrics if "accuracy" in record.metrics]
print(evaluated[-1])

# %% [markdown]
# ## Three methods, one federation
# Clients, cohorts, batches and the initial model follow from the seed, so they are the same for every method.

# %%
for name, eta_l in {"fedamd": 0.05, "fedavg": 0.1, "scaffold": 0.05}.items():
    records = fedamd.run(algorithm={"name": name, "eta_l": eta_l}, **problem).metrics
    points = [(record.round + 1, record.metrics["accuracy"]) for record in records if "accuracy" in record.metrics]
    plt.plot(*zip(*points, strict=True), label=name)
plt.xlabel("round")
plt.ylabel("test accuracy")
plt.legend()
plt.show()

# %% [markdown]
# ## What each client gets
# A fifth of every client's samples is kept for a test of its own.

# %%
fair = fedamd.run(algorithm=fedamd.FedAvg(eta_l=0.1), test_share=0.2, evaluate_clients_every=10, **problem)
last = next(record for record in reversed(fair.metrics) if record.clients)
print(last.clients)
