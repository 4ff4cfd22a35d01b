"""docs/permissions.md, out of the table."""

from __future__ import annotations

from itertools import groupby

from stitchweb.core.permissions import Action, Route, Who, table
from stitchweb.core.routes import addresses

HEAD = """# Who may do what

Written by `manage.py permissions --write` from the `permissions.py` of each app; `make lint` fails when it is out of date. The
code decides by the same table: access queries take an action of it, and an address without a row is not served. A test visits
every address, socket and method as everybody below, and finds open what is open here and nothing else
(`tests/stitchweb/test_permission_matrix.py`).

- ● may. ◐ may, where the last column says. An empty cell is refused: 404 where the row is not theirs to know of, 403 with a
  sentence where only the role is missing, the sign-in page where nobody is signed in.
- **outsider**: signed in, not in the team that owns the row. **operator**: runs the site, not in the team.
- **link**: not signed in, with a link that is good. **dead link**: with one that has expired, was revoked or is used up.
- **runner**: a machine with the token of a job.
"""


def page() -> str:
    """The whole page."""
    return "\n".join([HEAD, "## Actions", "", *_actions(), "", "## Addresses", "", *_routes(), ""])


def _cell(action: Action, who: Who) -> str:
    return ("◐" if action.when else "●") if who in action.who else ""


def _actions() -> list[str]:
    lines = [f"| action | | {' | '.join(Who)} | where |", f"| --- | --- |{' :-: |' * len(Who)} --- |"]
    for _, part in groupby(sorted(table().actions.values(), key=_place), lambda action: action.name.split(".")[0]):
        for action in sorted(part, key=lambda action: (-len(action.who), action.name)):
            cells = " | ".join(_cell(action, who) for who in Who)
            lines.append(f"| `{action.name}` | {action.says} | {cells} | {action.when} |")
    return lines


def _place(action: Action) -> tuple[int, str]:
    area = action.name.split(".")[0]
    return (("site", "account", "team").index(area) if area in ("site", "account", "team") else 9, area)


def _does(row: Route) -> str:
    by_action: dict[str, list[str]] = {}
    for method, action in row.methods.items():
        by_action.setdefault(action.name, []).append(method)
    return ", ".join(f"{' and '.join(methods)} `{name}`" for name, methods in by_action.items())


def _routes() -> list[str]:
    patterns: dict[str, str] = {}
    for name, pattern in addresses():
        patterns.setdefault(name, pattern)
    lines = ["| address | name | method and action |", "| --- | --- | --- |"]
    found = ((pattern, name, table().routes.get(name)) for name, pattern in patterns.items())
    lines += [f"| `/{_shown(pattern)}` | `{name}` | {_does(row)} |" for pattern, name, row in sorted(found, key=str) if row]
    lines += [f"| `/{pattern}` | WebSocket | `{action.name}` |" for pattern, action in sorted(table().sockets.items())]
    lines += [f"| task `{name}` | sent by | `{action.name}` |" for name, action in sorted(table().tasks.items())]
    return lines


def _shown(pattern: str) -> str:
    return pattern.replace("|", "\\|").replace("^", "").replace("\\Z", "").replace("$", "")
