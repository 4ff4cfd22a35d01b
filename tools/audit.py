"""Asks the advisory database of Open Source Vulnerabilities about every package that the site is pinned to.

Usage: python tools/audit.py [--server URL] [--allow ID …]. Exit status 1 when there is an advisory that is not allowed, 2 when
the database could not be asked. `make audit`; not a part of CI, which reaches no server of others.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SERVER = "https://api.osv.dev"
_PIN = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^\s;#]+)")
_AT_ONCE = 500


def pins() -> list[tuple[str, str]]:
    """Name and version of everything that is installed: the requirements and what they pull in."""
    found: dict[str, str] = {}
    for file in ("requirements.txt", "requirements-dev.txt", "constraints.txt"):
        for line in (ROOT / file).read_text(encoding="utf-8").splitlines():
            if match := _PIN.match(line.strip()):
                found[match[1].lower()] = match[2]
    return sorted(found.items())


def advisories(packages: list[tuple[str, str]], server: str = SERVER) -> dict[tuple[str, str], list[str]]:
    """The ids of known advisories by package. OSError where the server cannot be asked, ValueError for what it says wrongly."""
    found: dict[tuple[str, str], list[str]] = {}
    for start in range(0, len(packages), _AT_ONCE):
        part = packages[start : start + _AT_ONCE]
        asked = [{"package": {"name": name, "ecosystem": "PyPI"}, "version": version} for name, version in part]
        request = urllib.request.Request(  # noqa: S310  an address of https, or of a test
            f"{server}/v1/querybatch",
            json.dumps({"queries": asked}).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
            results = json.load(answer).get("results")
        if not isinstance(results, list) or len(results) != len(part):
            raise ValueError("the server answered about other packages than it was asked about")
        for package, result in zip(part, results, strict=True):
            if ids := [row["id"] for row in (result or {}).get("vulns", [])]:
                found[package] = ids
    return found


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--server", default=SERVER)
    parser.add_argument("--allow", nargs="*", default=[], metavar="ID", help="advisories that do not concern us")
    args = parser.parse_args(arguments)
    packages = pins()
    try:
        found = advisories(packages, args.server)
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        print(
            f"{args.server} could not be asked ({reason}), so nothing is known. Try again where the internet is.",
            file=sys.stderr,
        )
        return 2
    left = {package: [one for one in ids if one not in args.allow] for package, ids in found.items()}
    for (name, version), ids in left.items():
        if ids:
            print(f"{name} {version}: {', '.join(f'https://osv.dev/{one}' for one in ids)}")
    bad = sum(bool(ids) for ids in left.values())
    print(f"{len(packages)} packages, {bad} with advisories" + (f", allowed: {', '.join(args.allow)}" if args.allow else ""))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
