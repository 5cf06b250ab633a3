"""The map: people, places, projects and topics that memories name, and the memories of one of them."""

from __future__ import annotations

import json

from starlette.responses import Response

from keepstone.errors import NotFound
from keepstone.recall.lookups import KINDS, MAX_ENTITIES
from keepstone.server.dashboard.context import Page, PageRequest

_DRAWN = 60  # more names than this are not readable on a map; the table has the rest
_LISTED = 300
LABELS = {"person": "People", "place": "Places", "project": "Projects", "topic": "Topics"}


def show_map(request: PageRequest) -> Response:
    """The map with its table; with a name, the memories of that one."""
    kind, name = request.http.param("kind"), request.http.param("name")
    kind = kind if kind in KINDS else None
    entities = request.memory.entities(kind=kind, limit=MAX_ENTITIES)
    chosen = None
    if name is not None:
        everything = entities if kind is None else request.memory.entities(limit=MAX_ENTITIES)
        chosen = next((entity for entity in everything if entity.name.casefold() == name.casefold()), None)
        if chosen is None:
            raise NotFound(f"no memory names {name!r:.80}: choose a name of the table.")
    drawn = entities[:_DRAWN]
    names = {entity.name for entity in drawn}
    # The drawn names that share memories with an entity, and how many, for the script that draws the map.
    links = {entity.name: [[name, count] for name, count in entity.related if name in names] for entity in drawn}
    return request.page(
        "map.html",
        entities=entities[:_LISTED],
        total=len(entities),
        at_least=len(entities) == MAX_ENTITIES,
        drawn=len(drawn),
        edges={name: json.dumps(each, ensure_ascii=False) for name, each in links.items()},
        kind=kind,
        kinds=LABELS,
        chosen=chosen,
        records=() if chosen is None else request.backend.get_many(request.caller.scope, chosen.ids),
    )


PAGES = (Page("/map", get=show_map),)
