# %% [markdown]
# # Requirements on confidential columns
#
# k-anonymity hides which record belongs to a person. It does not help if all k records say the
# same. This notebook shows the problem and how to solve it with `require`. It continues
# [A first release](first_release.ipynb).

# %%
import matplotlib.pyplot as plt
import pandas as pd

import microcell as mc

pd.options.display.max_colwidth = 200
people = pd.DataFrame(mc.sample_survey(600))
schema = mc.sample_schema()
plain = mc.anonymize(people, schema, k=5, effort="fast")
plain

# %% [markdown]
# ## The problem
#
# The column `anti_tpo_grade` is confidential: a grade from 0 to 4 that hints at a thyroid disease.
# A *class* consists of the records with the same published quasi-identifiers. In how many classes
# do all people have the same grade?

# %%
quasi = ["sex", "age", "bmi", "latitude", "longitude", "postal_code"]


def grades_per_class(table):
    return table.groupby(quasi)["anti_tpo_grade"].nunique()


grades_per_class(plain.table).value_counts().sort_index().rename("classes")

# %% [markdown]
# In the classes of the first row, an outsider does not need to find the right record: everyone in
# the class has the same grade. The audit counts these classes and the people in them, and has
# several measures of how much a class reveals.

# %%
names = ["homogeneous_classes", "homogeneous_records", "l_diversity", "t_closeness"]
audit = mc.audit(people, plain.table, schema)
audit.to_frame().set_index("name").loc[names, ["value", "direction", "meaning"]]

# %% [markdown]
# ## Require more
#
# - `l_diversity` is the smallest number of different confidential values in a class. At least 2
#   means that no class reveals a value.
# - `t_closeness` compares the values of a class with those of the whole table: 0 if every class
#   looks like the table, at most 1. It matters where even a likely value does harm.
#
# A plain name covers all confidential columns; `l_diversity.anti_tpo_grade` covers one. If
# the cells miss a limit, microcell searches for others that meet it with little loss.

# %%
limits = {"l_diversity.anti_tpo_grade": 2, "t_closeness": 0.3}
strict = mc.anonymize(people, schema, k=5, effort="fast", require=limits)
strict

# %%
merging = strict.manifest.requirements
print(f"{merging.cells_before} cells became {merging.cells_after}: {merging.way}.")
grades_per_class(strict.table).value_counts().sort_index().rename("classes")

# %% [markdown]
# No class with a single grade is left, and the audit confirms both limits.

# %%
mc.audit(people, strict.table, schema).require(**limits)

# %% [markdown]
# ## What it costs
#
# Cells within limits are larger or wider, so the published values are less precise. The stricter
# the limit, the higher the price.

# %%
losses = {"none": plain.manifest.information_loss}
for limit in (0.4, 0.3, 0.2, 0.15):
    release = mc.anonymize(people, schema, k=5, effort="fast", require={"t_closeness": limit})
    losses[f"{limit}"] = release.manifest.information_loss

figure, axes = plt.subplots()
axes.bar(list(losses), [100 * loss for loss in losses.values()], color="#1f4e79")
axes.set_xlabel("largest t-closeness allowed")
axes.set_ylabel("information loss (%)")
plt.show()

# %% [markdown]
# ## Limits that cannot be met
#
# No class can have six different grades, as there are only five. microcell says so and releases
# nothing. The error has a stable code that programs can rely on.

# %%
try:
    mc.anonymize(people, schema, k=5, effort="fast", require={"l_diversity.anti_tpo_grade": 6})
except mc.RequirementError as error:
    print(error.code)
    print(error)

# %% [markdown]
# Measures that merging cannot enforce, such as `linkage` and `information_loss`, are checked on the
# finished release. [Requirements](../howto/requirements.md) lists both kinds, and
# [what k-anonymity does not protect against](../explain/limits.md) gives the reasons.
