# %% [markdown]
# # A first release
#
# You have a table about people and want to publish it, or give it to researchers, without
# revealing who is who. Removing the names is not enough: age, sex and postal code together are
# often unique. microcell groups the records into *cells* of at least k similar people and
# publishes one value for the whole cell, so every record looks like at least k - 1 others. This is
# called *k-anonymity*.
#
# All you need to know is pandas. The notebook needs `pip install "microcell[report]" pandas`.

# %%
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

import microcell as mc

pd.options.display.max_colwidth = 200
people = pd.DataFrame(mc.sample_survey(500))
people.head()

# %% [markdown]
# This is the synthetic health survey that comes with microcell. Nobody in it exists. How many of
# the 500 people are the only ones of their age, sex and postal code?

# %%
known = ["age", "sex", "postal_code"]
group_sizes = people.groupby(known)["name"].transform("size")
int((group_sizes == 1).sum())

# %% [markdown]
# Most of them. A neighbour who knows these three facts finds the record of the person, and with it
# the laboratory results.
#
# ## The role of each column
#
# A *schema* says what each column is:
#
# - an **identifier** names a person and is removed;
# - a **quasi-identifier** is something that an outsider may know, and is replaced by the cell's
#   value;
# - a **confidential** column is what an outsider would like to learn. It is published unchanged.
#
# `mc.draft_schema(mc.inspect(people))` drafts a schema for you to correct. Here we write it down.

# %%
schema = mc.Schema(
    identifiers=["name"],
    quasi=[
        mc.Column("sex", kind="nominal"),
        "age",
        "bmi",
        mc.Column("home", kind="location", latitude="latitude", longitude="longitude"),
        mc.Column("postal_code", kind="code"),
    ],
    confidential=["anti_tpo_grade", "tsh"],
)
schema

# %% [markdown]
# ## Anonymize
#
# `l_diversity=2` requires at least two values of each confidential column in every cell: otherwise
# some cells would reveal a diagnosis, because everyone in them has the same one. `effort="fast"`
# takes seconds. Leave it out, and microcell searches longer for cells that lose less information.

# %%
release = mc.anonymize(people, schema, k=5, require={"l_diversity": 2}, effort="fast")
release

# %% [markdown]
# `release.table` is a DataFrame again, in the same order and with the same index.

# %%
release.table.head()

# %%
int(release.table.groupby(known).size().min())

# %% [markdown]
# Every combination now occurs at least five times. The ages keep their distribution, because the
# people of a cell are similar. Extreme ages disappear: all people of a cell get the same age, from
# the middle of the cell.

# %%
figure, axes = plt.subplots()
bins = range(15, 100, 5)
axes.hist([people["age"], release.table["age"]], bins=bins, label=["original", "published"])
axes.set_xlabel("age")
axes.set_ylabel("people")
axes.legend()
plt.show()

# %% [markdown]
# ## What a cell looks like
#
# Five quasi-identifiers cannot be drawn, but two can. Each dot is a person, each polygon is a cell,
# and the cross in it is what is published for everyone in the cell. The figure shows original
# records: use it to understand your data, and do not publish it.

# %%
some = people.loc[:119, ["age", "bmi"]]
two_columns = mc.anonymize(some, mc.Schema(quasi=["age", "bmi"]), k=5, effort="fast")
mc.plot.release(some, two_columns)

# %% [markdown]
# ## Audit
#
# The audit compares the two tables and measures what an outsider could find out and what the
# release has lost. It uses nothing but the tables and the schema.

# %%
audit = mc.audit(people, release.table, schema)
audit

# %%
measures = audit.to_frame().set_index("name")
measures.loc[["k", "linkage", "information_loss", "correlation_change"], ["value", "meaning"]]

# %% [markdown]
# `linkage` is the share of people whom somebody who knows all quasi-identifiers would re-identify.
# `require` turns the audit into a check: it raises an error if a limit is not met.

# %%
audit.require(k=5, l_diversity=2, linkage=0.2)

# %% [markdown]
# ## Publish
#
# Publishing shuffles the rows, writes the file, reads it back and counts k again. The manifest next
# to the file records how the release was made, and the report explains it to people.

# %%
release.publish("people_k5.csv", report="people_k5.html")
sorted(path.name for path in Path().glob("people*"))

# %% [markdown]
# Next: [which k to choose](choosing_k.ipynb), and
# [stricter requirements on confidential columns](requirements.ipynb).
