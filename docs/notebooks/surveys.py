# %% [markdown]
# # A survey that never collects the original values
#
# The other notebooks anonymize a table that somebody already has. Here nobody ever has it: the
# cells are designed *before* anyone answers, from a list of the people who are invited. The
# respondents find their own cell and send the number of the cell instead of their age, sex and
# home.
#
# The difficulty is that not everyone answers. A cell of ten candidates of whom four answer hides
# each of them among four people only. Cells are therefore made larger.

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import microcell as mc

candidates = pd.DataFrame(mc.sample_survey(1000))
schema = mc.sample_schema()

# %% [markdown]
# ## How large must a cell be?
#
# We want k = 5 and expect that 75 % of the candidates take part. We accept a *failure* with
# probability 0.001 for each cell: 1 to 4 answers. A cell without answers is fine, as it publishes
# nothing.

# %%
size = mc.surveys.size(5, participation=0.75, failure=1e-3, records=len(candidates))
size.anonymity.size

# %% [markdown]
# The smaller the accepted probability, the larger the cell.

# %%
mc.plot.survey_size(size)

# %% [markdown]
# ## Design the cells
#
# `design` uses the quasi-identifiers of the candidates only. The result contains no record of a
# candidate and can be handed out.

# %%
design = mc.surveys.design(candidates, schema, 5, participation=0.75, failure=1e-3, method="mdav")
design.publish("cells.json")
design

# %% [markdown]
# ## Check and answer
#
# Respondents need not trust the organizer. `check` verifies that the file is unaltered and that the
# failure probabilities follow from the sizes of the cells.

# %%
mc.surveys.check("cells.json").holds

# %% [markdown]
# The respondent's own device finds the cell. The answer consists of the number of the cell and what
# the cell publishes.

# %%
me = {
    "sex": "female",
    "age": 44,
    "bmi": 23.1,
    "latitude": 41.6,
    "longitude": 1.0,
    "postal_code": "25100",
}
mc.surveys.answer("cells.json", me).as_dict()

# %% [markdown]
# `mc.surveys.page` makes a web page that does the same offline, and `mc.surveys.form` a form on
# paper.
#
# ## Collect the answers
#
# We simulate who takes part. In a real survey, each respondent sends a cell and the laboratory
# value, and that is all that the organizer gets.

# %%
rng = np.random.default_rng(0)
takes_part = rng.random(len(candidates)) < 0.75
answers = pd.DataFrame(
    {"cell": design.labels[takes_part], "tsh": candidates["tsh"][takes_part].to_numpy()}
)
answers.head()

# %%
collection = mc.surveys.collect("cells.json", answers)
collection

# %% [markdown]
# The rows of the release are in random order, so we sort them to look at a few.

# %%
collection.table.sort_values(["age", "bmi", "tsh"], ignore_index=True).head()

# %% [markdown]
# All cells got at least five answers, as designed. If a cell had got 1 to 4 answers, these would
# have been suppressed (or merged with another cell, with `below="merge"`). The numbers below are
# for your eyes only: they would include suppressed answers.

# %%
figure, axes = plt.subplots()
values, counts = np.unique(collection.attained, return_counts=True)
axes.bar(values, counts, color="#1f4e79")
axes.axvline(4.5, color="#d55e00", linestyle="--", label="k = 5")
axes.set_xlim(0, None)
axes.set_xlabel("answers of a cell")
axes.set_ylabel("cells")
axes.legend()
plt.show()

# %% [markdown]
# ## The price of not knowing who answers
#
# The ratio compares the expected information loss with that of a design in which everyone takes
# part.

# %%
round(design.manifest.certainty.ratio, 2)

# %% [markdown]
# [Surveys](../surveys.md) covers different probabilities of participation, levels of trust and
# paper forms.
