# %% [markdown]
# # Choosing k
#
# k is the number of records that an outsider cannot tell apart. A larger k protects people better
# and makes the table less precise. This notebook measures both sides on a table, and lets microcell
# recommend a k. It continues [A first release](first_release.ipynb).

# %%
import pandas as pd

import microcell as mc

people = pd.DataFrame(mc.sample_survey(500))
schema = mc.sample_schema()
schema

# %% [markdown]
# ## Try several k
#
# `mc.explore` makes the release of each k in memory and audits it. Nothing is written. The card
# shows two measures of each release:
#
# - `linkage`, the risk: the share of people whom somebody who knows all quasi-identifiers
#   re-identifies;
# - `information_loss`: 0 if every value is unchanged, 1 if all records are published alike.

# %%
result = mc.explore(people, schema, k=[3, 5, 10, 20, 40], methods=["mdav", "bisect"])
result

# %% [markdown]
# The map shows risk against loss. Points to the lower left are better. The dashed stairs are the
# *frontier*: a point below them would be better than everything that was tried. The recommended
# point has a ring.

# %%
mc.plot.exploration(result)

# %% [markdown]
# ## State a limit
#
# Without limits, microcell recommends the best balance on the map, which depends on the k that you
# tried. If you know how much risk you accept, say so. Of the points that meet the limit, the one
# with the least loss is recommended.

# %%
limited = mc.explore(
    people, schema, k=[3, 5, 10, 20, 40], methods=["mdav", "bisect"], require={"linkage": 0.1}
)
print(limited.recommended)
print(limited.reason)

# %%
mc.plot.exploration(limited)

# %% [markdown]
# `to_frame` has all measures of the audit, one row for each release.

# %%
columns = ["method", "k", "linkage", "information_loss", "t_closeness", "meets_limits"]
limited.to_frame()[columns].round(3)

# %% [markdown]
# ## What users of the table will notice
#
# Information loss is a summary. What matters is whether the analysis still works. Suppose that the
# table is used to study how TSH, a laboratory value, differs between women and men in two age
# groups. Compare the means before and after.


# %%
def mean_tsh(table):
    older = (table["age"] >= 50).map({True: "50 and over", False: "under 50"})
    return table.groupby(["sex", older])["tsh"].mean()


means = {"original": mean_tsh(people)}
for k in (5, 10, 20, 80):
    means[f"k = {k}"] = mean_tsh(mc.anonymize(people, schema, k=k, effort="fast").table)
pd.DataFrame(means).round(2)

# %% [markdown]
# The differences between the groups survive up to k = 20. With k = 80 there are only six cells.
# Women and men share them, and each is published with its most frequent sex: men have disappeared
# from the table. A k that is too large for a table ruins it.
#
# ## A longer search
#
# A better partition lowers the loss at the same k, so it costs nothing but time. The default method
# `auto` searches for a second or so on a table of this size.

# %%
fast = mc.anonymize(people, schema, k=10, effort="fast")
longer = mc.anonymize(people, schema, k=10)
pd.Series(
    {
        "fast": fast.manifest.information_loss,
        "default": longer.manifest.information_loss,
    },
    name="information loss",
).round(3)

# %% [markdown]
# ## Decide
#
# Take the largest k that the use of the table allows, not the smallest that a rule allows. If the
# users of the table accept a certain loss, limit the loss: then the point with the least risk is
# recommended.

# %%
by_loss = mc.explore(
    people, schema, k=[3, 5, 10, 20], methods="mdav", require={"information_loss": 0.2}
)
print(by_loss.recommended)

# %% [markdown]
# [Choosing k](../explain/choosing-k.md) covers the rest of the decision: who gets the table, and
# what happens to a person who is re-identified.
