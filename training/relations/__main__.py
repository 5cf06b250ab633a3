"""Prints how many relations and texts there are."""

from training.relations import load_relations

relations = load_relations()
for domain in sorted({relation.domain for relation in relations}):
    ours = [relation for relation in relations if relation.domain == domain]
    texts = sum(
        len(r.statements) + len(r.about) + len(r.changes) + len(r.corrections) + len(r.ends) + len(r.past)
        + len(r.wishes) + len(r.additions) + len(r.questions) + len(r.questions_about) + len(r.past_questions)
        for r in ours
    )  # fmt: skip
    print(f"{domain}: {len(ours)} relations, {len({r.attribute for r in ours})} attributes, {texts} texts")
