"""report.html of a comparison, drawn from its facts (`Comparison.to_json`) in the look of a run's."""

from __future__ import annotations

from html import escape

from canon.compare.result import cost_rows, format_p, metric_rows
from canon.config import Table
from canon.report import curves, page


def render(facts: Table, draw: bool) -> str:
    """The page; `facts` may have been to JSON and back."""
    recipes, protocol = facts["recipes"], facts["protocol"]
    labels = [recipe["label"] for recipe in recipes]
    about = (
        f"{len(recipes)} recipes, {sum(len(recipe['runs']) for recipe in recipes)} runs on "
        f"{escape(str(protocol.get('source', 'the same data')))}; scores of the {facts['split']} set."
    )
    terms = {key: value for key, value in protocol.items() if key != "data"}
    terms |= {
        "fingerprint": page.Html(f"<code>{protocol['data']}</code>"),
        "seeds": ", ".join(map(str, facts["seeds"])),
    }
    terms["examples seen"] = {recipe["label"]: f"{round(recipe['cost']['examples']):,}" for recipe in recipes}
    verdicts = "".join(page.note(text, "verdict") for text in facts["verdicts"])
    metrics = [f"<h3>{escape(name)}</h3>{page.table(metric_rows(facts, name))}" for name in recipes[0]["metrics"]]
    settings = [
        {"setting": key} | {name: facts["settings"][name][key] for name in labels}
        for key in facts["settings"][labels[0]]
    ]
    return page.document(
        " and ".join(labels) if len(labels) < 3 else "A comparison of recipes",
        "canon comparison",
        about,
        page.cards(_card(facts, recipe) for recipe in recipes),
        {
            "Result": verdicts + "".join(metrics) + "".join(map(page.note, facts["notes"])),
            "Runs by seed": _dots(facts) if draw else page.note(page.NO_FIGURES),
            "Curves": _curves(facts) if draw else "",
            "Cost": page.table(cost_rows(facts)) + page.note("Means over the runs."),
            "Every run": _runs(facts),
            "Settings that differ": page.table(settings),
            "Protocol": page.pairs(terms),
            "Again": page.code(facts["command"]),
        },
    )


def _card(facts: Table, recipe: Table) -> str:
    main, against = recipe["metrics"][facts["main"]], recipe["minus_first"].get(facts["main"])
    about = f"mean of {main['n']} runs"
    if main["low"] is not None:
        about = f"± {page.number((main['high'] - main['low']) / 2)} (95 %, {main['n']} seeds)"
    if against and against["p_holm"] is not None:
        about += f"<br>{page.number(against['mean'])} against the first, p = {format_p(against['p_holm'])}"
    return page.card(f"{recipe['label']}: {facts['split']} {facts['main']}", page.number(main["mean"]), about)


def _dots(facts: Table) -> str:
    figures = []
    for name in facts["recipes"][0]["metrics"]:
        values = {recipe["label"]: list(recipe["values"][name].values()) for recipe in facts["recipes"]}
        spreads = {recipe["label"]: recipe["metrics"][name] for recipe in facts["recipes"]}
        intervals = {label: (of["low"], of["high"]) for label, of in spreads.items() if of["low"] is not None}
        figures.append(curves.dots_figure(values, intervals, f"{facts['split']} {name}"))
    return page.drawings(figures) + page.note("A dot is a run, a bar the mean, a line its 95 % interval.")


def _curves(facts: Table) -> str:
    figures = [curves.spread_figure(groups, name, "examples seen") for name, groups in facts["curves"].items()]
    note = page.note("Means over seeds; the band is from the least to the most.")
    return page.drawings(figure for figure in figures if figure) + note


def _runs(facts: Table) -> str:
    rows = []
    for recipe in facts["recipes"]:
        for seed, path in recipe["runs"].items():
            link, name = escape(recipe["pages"][seed]), escape(path)
            scores = {metric: values[seed] for metric, values in recipe["values"].items()}
            time = page.Right(page.duration(recipe["seconds"][seed]))
            run = page.Html(f'<a href="{link}">{name}</a>' if link else name)
            rows.append({"recipe": recipe["label"], "seed": seed, **scores, "time": time, "run": run})
    return page.table(rows)
