"""manage.py export_dataset: one config of a release as files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from stitchweb.datasets.configs import CONFIGS
from stitchweb.datasets.models import Release
from stitchweb.datasets.progress import Refused
from stitchweb.datasets.services.releases import card_of, export_config
from stitchweb.datasets.teams import team_named
from stitchweb.datasets.writing import FORMATS


class Command(BaseCommand):
    help = "Writes one file per split of a config (train.jsonl …) into a folder, the same bytes every time."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--release", required=True, help="name of the release")
        parser.add_argument("--config", required=True, choices=CONFIGS)
        parser.add_argument("--format", choices=FORMATS, default="jsonl")
        parser.add_argument("--out", required=True, type=Path, help="folder; made where it is missing")
        parser.add_argument("--team", default="", help="slug of the team, by default the demo team")
        parser.add_argument("--card", action="store_true", help="also write README.md, the card of the whole release")

    def handle(self, *, release: str, config: str, format: str, out: Path, team: str, card: bool, **options: Any) -> None:
        out = Path(out)
        try:
            owner = team_named(team)
            row = Release.objects.filter(team=owner, name=release).first()
            if row is None:
                names = ", ".join(Release.objects.filter(team=owner).values_list("name", flat=True)[:10]) or "none"
                raise Refused(f"The team {owner.slug} has no release {release!r}. It has: {names}.")
            counts = export_config(row, config, format, out)
            if card:
                (out / "README.md").write_text(card_of(row, format), encoding="utf-8")
        except (Refused, OSError) as refusal:
            raise CommandError(str(refusal)) from None
        for split, count in counts.items():
            self.stdout.write(f"{out / f'{split}.{format}'}: {count} rows")
