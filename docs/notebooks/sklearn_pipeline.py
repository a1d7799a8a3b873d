# %% [markdown]
# # In a scikit-learn pipeline
#
# `Microaggregator` is a scikit-learn transformer that replaces each row by the mean of its cell of
# at least k rows. Use it to find out how much accuracy a model loses when it is trained on
# anonymized data. The notebook needs `pip install "microcell[report,sklearn]" pandas`.

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import microcell as mc
from microcell.sklearn import Microaggregator

people = pd.DataFrame(mc.sample_survey(800))
X = people[["age", "bmi", "anti_tpo_grade"]].astype(float)
y = np.log(people["tsh"])
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.25, random_state=0)
X_train.head()

# %% [markdown]
# ## Transform
#
# The transformer accepts numbers only. Columns are standardized before distances are measured.

# %%
aggregator = Microaggregator(k=5, method="mdav")
Z_train = aggregator.fit_transform(X_train)
smallest = np.unique(Z_train, axis=0, return_counts=True)[1].min()
print(f"{len(aggregator.cell_sizes_)} cells, smallest class: {smallest} records")

# %%
figure, axes = plt.subplots()
axes.scatter(X_train["age"], X_train["bmi"], s=8, color="#c9ced6", label="original")
axes.scatter(Z_train[:, 0], Z_train[:, 1], s=14, color="#1f4e79", label="anonymized")
axes.set_xlabel("age")
axes.set_ylabel("body-mass index")
axes.legend()
plt.show()

# %% [markdown]
# ## Train on anonymized data
#
# We predict the logarithm of TSH, a laboratory value, with two models that see only the anonymized
# rows. R² is measured on original test data: the question is what a model that was trained on the
# release is worth.

# %%
models = {"linear": LinearRegression(), "forest": RandomForestRegressor(50, random_state=0)}
scores = {}
for k in (1, 3, 5, 10, 20, 50):
    # k = 1 stands for the original data.
    Z = X_train if k == 1 else Microaggregator(k=k, method="mdav").fit_transform(X_train)
    scores[k] = {
        name: model.fit(np.asarray(Z), y_train).score(X_test.to_numpy(), y_test)
        for name, model in models.items()
    }
scores = pd.DataFrame(scores).T.rename_axis("k")
scores.round(3)

# %%
figure, axes = plt.subplots()
for name in scores:
    axes.plot(scores.index.astype(str), scores[name], marker="o", label=name)
axes.set_ylim(0, 0.5)
axes.set_xlabel("k (1: original data)")
axes.set_ylabel("R² on original test data")
axes.legend()
plt.show()

# %% [markdown]
# Cell means keep the mean of every column and most of its correlations, so the linear model loses
# nothing. The forest even gains: smoother data leave less to overfit. Models that depend on rare
# combinations of values will lose more, so try your own.
#
# ## Grid search
#
# Parameters of the transformer can be searched like those of any other step. Here the rows of the
# validation folds are anonymized, too: a new row gets the mean of the nearest cell. That lowers the
# scores a little, and more for a larger k.

# %%
pipeline = make_pipeline(StandardScaler(), Microaggregator(method="mdav"), LinearRegression())
search = GridSearchCV(pipeline, {"microaggregator__k": [3, 5, 10, 20]}, cv=3)
search.fit(X_train, y_train)
pd.DataFrame(search.cv_results_)[["param_microaggregator__k", "mean_test_score"]].round(3)

# %% [markdown]
# ## What to keep in mind
#
# - The fitted transformer contains the rows it was fitted to, because it must recognise them. A
#   saved pipeline is as confidential as the data.
# - The output for the *whole* fitted table is k-anonymous. Part of it, or the output for new rows,
#   need not be.
# - There is no schema: for a table with names, categories and confidential columns, use
#   `mc.anonymize` as in [A first release](first_release.ipynb).
