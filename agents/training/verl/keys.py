"""What verl's schema has where our configuration sets something: read from verl's wheel once, kept as `keys.json`.

    python -m agents.training.verl.keys verl-0.9.1-py3-none-any.whl

reads `verl/trainer/config/_generated_ppo_trainer.yaml`, the composed configuration with its defaults, and the annotations of
verl's own dataclasses for it. It writes every key beside those that `ppo.yaml` sets.
"""

from __future__ import annotations

import ast
import json
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
CONFIG, KEYS = HERE / "ppo.yaml", HERE / "keys.json"
GENERATED = "verl/trainer/config/_generated_ppo_trainer.yaml"
OURS = ("defaults", "stitchweb_door")  # Hydra's own, and ours
OPEN = ("reward.custom_reward_function.reward_kwargs",)  # handed on as it is
_PLAIN: dict[str, tuple[type, ...]] = {"bool": (bool,), "int": (int,), "float": (int, float), "str": (str,), "list": (list,)}


def flat(value: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted key and value of every leaf. An empty mapping is one, and so is what `OPEN` names."""
    for key, item in value.items():
        name = f"{above}{key}"
        if isinstance(item, Mapping) and item and name not in OPEN:
            yield from flat(item, f"{name}.")
        else:
            yield name, item


def problems(config: Mapping[str, Any], keys: Mapping[str, str]) -> list[str]:
    """A sentence for each key that verl does not have, or whose value is of another kind than verl's."""
    found = []
    for name, value in flat(config):
        kind = keys.get(name)
        if name.partition(".")[0] in OURS or name in OPEN:
            continue
        if kind is None:
            found.append(f"verl has no key {name}.")
        elif not fits(value, kind):
            found.append(f"{name} is {value!r}, and verl's is {kind}.")
    return found


def fits(value: Any, kind: str) -> bool:
    """Whether a value is of a kind: an annotation, or the name of a default's type. What is computed takes anything."""
    if isinstance(value, str) and value.startswith("${"):
        return True
    parts = [part.strip() for part in kind.removeprefix("Optional[").rstrip("]").replace("Optional[", "").split("|")]
    if value is None:
        return kind.startswith("Optional") or "None" in parts or kind == "computed"
    if isinstance(value, bool):  # which Python takes for a whole number
        return "bool" in parts or kind == "computed"
    known = [_PLAIN[part.partition("[")[0].lower()] for part in parts if part.partition("[")[0].lower() in _PLAIN]
    return kind == "computed" or not known or any(isinstance(value, one) for one in known)


def read(wheel: Path, config: Mapping[str, Any]) -> dict[str, Any]:
    """Version, and the kinds of all keys beside those that the configuration sets."""
    import yaml  # only where the list is made anew

    with zipfile.ZipFile(wheel) as files:
        whole = yaml.safe_load(files.read(GENERATED))
        fields = _fields(files)
    beside = {name.rpartition(".")[0] for name, _ in flat(config)}
    kinds = {
        name: _kind(whole, name, value, fields)
        for name, value in flat(whole)
        if name.rpartition(".")[0] in beside and not name.endswith("_target_")
    }
    return {"verl": wheel.name.split("-")[1], "from": GENERATED, "keys": dict(sorted(kinds.items()))}


def _kind(whole: Mapping[str, Any], name: str, value: Any, fields: Mapping[str, Mapping[str, str]]) -> str:
    """The field's annotation where verl has a class for it, else the type of the default; `computed` for one of neither."""
    inner: Any = whole
    for part in name.split(".")[:-1]:
        inner = inner[part]
    target = str(inner.get("_target_", "")).rpartition(".")[2]
    told = fields.get(target, {}).get(name.rpartition(".")[2])
    if told is not None:
        return told
    return "computed" if value is None or str(value).startswith("${") else type(value).__name__


def _fields(files: zipfile.ZipFile) -> dict[str, dict[str, str]]:
    """Annotations of verl's configuration classes, by class and field, those of bases included."""
    own: dict[str, tuple[list[str], dict[str, str]]] = {}
    for path in files.namelist():
        if path.endswith(".py") and "config" in path:
            for node in ast.walk(ast.parse(files.read(path))):
                if isinstance(node, ast.ClassDef):
                    told = {
                        item.target.id: ast.unparse(item.annotation)
                        for item in node.body
                        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
                    }
                    own[node.name] = ([ast.unparse(base) for base in node.bases], told)

    def whole(name: str) -> dict[str, str]:
        bases, told = own.get(name, ([], {}))
        found: dict[str, str] = {}
        for base in bases:
            found |= whole(base) if base != name else {}
        return found | told

    return {name: whole(name) for name in own}


def main() -> int:
    import yaml

    config = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))
    found = read(Path(sys.argv[1]), config)
    KEYS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    wrong = problems(config, found["keys"])
    print("\n".join(wrong) or f"{len(found['keys'])} keys of verl {found['verl']}; the configuration fits.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
