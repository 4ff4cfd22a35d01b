"""One world for all tests of the shop: a team with its people, and somebody outside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from stitchweb.programs.models import Revision
    from stitchweb.teams.models import Team, User


def pytest_configure(config: pytest.Config) -> None:
    # The static files are collected by `manage.py up`; tests serve pages without them.
    config.addinivalue_line("filterwarnings", "ignore:No directory at")


REFERENCE = '''import torch
import torch.nn as nn


class Model(nn.Module):
    """Row-wise layer normalisation."""

    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.randn(16, 64)]


def get_init_inputs():
    return [64]
'''


@dataclass(frozen=True)
class World:
    """`owner`, `teammate` (a member), `expert` (a reviewer) and `viewer` are in `team`; `outsider` owns another one."""

    team: Team
    owner: User
    teammate: User
    expert: User
    viewer: User
    outsider: User
    others: Team
    revision: Revision


@pytest.fixture
def world(db: None) -> World:
    return build_world()


def build_world() -> World:
    from stitchweb.programs.services import Upload, create_program
    from stitchweb.teams.models import Role
    from stitchweb.teams.services import create_team, create_user, set_role

    people = {name: create_user(f"{name}@example.org", name=name.title()) for name in
              ("owner", "teammate", "expert", "viewer", "outsider")}  # fmt: skip
    team = create_team(people["owner"], "Kernel crew")
    others = create_team(people["outsider"], "Elsewhere")
    for name, role in (("teammate", Role.MEMBER), ("expert", Role.REVIEWER), ("viewer", Role.VIEWER)):
        set_role(team, people[name], role)
    revision = create_program(people["owner"], team, Upload(text=REFERENCE, filename="layernorm.py"))
    return World(team=team, others=others, revision=revision, **people)
