# %% [markdown]
# # Start before all data have arrived
#
# Often a table does not arrive at once: votes come in over a day, hospitals deliver every week.
# And anonymizing a large table takes time. In a *session*, microcell forms cells from the records
# that are there and adds the others as they arrive, so that little is left to do at the end.
#
# There is only one release, at the end. Two versions of a table would reveal the people in whom
# they differ.

# %%
import matplotlib.pyplot as plt
import pandas as pd

import microcell as mc

people = pd.DataFrame(mc.sample_survey(1000))
schema = mc.sample_schema()
morning, afternoon, evening = people[:700], people[700:900], people[900:]

# %% [markdown]
# ## A session
#
# The first records form the cells. They should be similar to those that follow, because their means
# and standard deviations are used to measure distances until the release.

# %%
session = mc.increments.start(morning, schema, 5, method="mdav")
session.add(afternoon)
session.add(evening)
release = session.finish()
release

# %%
pd.DataFrame(
    {
        "records": [batch.records for batch in session.batches],
        "strategy": [batch.strategy or "none" for batch in session.batches],
    }
)

# %% [markdown]
# The release is like any other: k is counted on the finished table, and the audit confirms it.

# %%
mc.audit(people, release.table, schema).require(k=5)

# %% [markdown]
# After `finish`, nothing can be added.

# %%
try:
    session.add(evening)
except mc.GuaranteeError as error:
    print(error)

# %% [markdown]
# ## The price
#
# The early cells were formed without the late records. Compare with a release of everything at
# once by the same method.

# %%
at_once = mc.anonymize(people, schema, k=5, method="mdav")
pd.Series(
    {
        "in three parts": release.manifest.information_loss,
        "at once": at_once.manifest.information_loss,
    },
    name="information loss",
).round(4)

# %% [markdown]
# The session even lost less information: by default, `add` also searches for better cells among
# those that a batch has changed, which MDAV alone does not do. The *strategy* decides how a batch
# is added:
#
# - `nearest` puts each record into the nearest cell. This is fast, but the cells grow.
# - `split-late` does the same and splits large cells at the end.
# - `refined`, the default, adds the local search.
#
# `measure_increments` compares them on a matrix of numbers. `nu` is the share of the records that
# arrive late, and `delta` the change in information loss relative to partitioning everything at
# once.

# %%
numbers = people[["age", "bmi", "latitude", "longitude"]]
points = ((numbers - numbers.mean()) / numbers.std()).to_numpy()
results = mc.increments.measure_increments(
    points, 5, nu=[0.1, 0.2, 0.3], strategies=["nearest", "split-late", "refined"]
)
table = results.to_frame().pivot(index="nu", columns="strategy", values="delta")
table.round(3)

# %%
figure, axes = plt.subplots()
for strategy in table:
    axes.plot(100 * table.index, 100 * table[strategy], marker="o", label=strategy)
axes.axhline(0, color="grey", linewidth=0.8)
axes.set_xticks([10, 20, 30])
axes.set_xlabel("records that arrive late (%)")
axes.set_ylabel("change in information loss (%)")
axes.legend()
plt.show()

# %% [markdown]
# ## When to start?
#
# Ten hours of voting, a million votes, and a job that would take two hours. If it starts after the
# last vote, the result is there two hours later. `plan` finds a better schedule.

# %%
plan = mc.increments.plan(1_000_000, collection=10 * 3600, whole=2 * 3600, strategy="separate")
plan

# %%
mc.plot.plan(plan)

# %% [markdown]
# Each row is another schedule: the share `nu` of records that are added at the end, when the work
# starts (in hours after the start of the collection), when it is finished (in hours after its end),
# and the additional information loss to expect.

# %%
schedules = plan.to_frame()[["nu", "starts", "after", "extra_distortion"]]
schedules[["starts", "after"]] /= 3600
schedules.head(7).round(3)

# %% [markdown]
# [Increments](../increments.md) covers sessions on disk, which can be continued after a break, and
# plans that measure the running time on a similar table.
