"""The tool that a Coder may call up to the last turn: its program verified by the reward service. Runs in verl's processes."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from uuid import uuid4

from verl.tools.base_tool import BaseTool
from verl.tools.schemas import ToolResponse

from agents.training.verl.reward import item_of, priced, told


class VerifyTool(BaseTool):  # type: ignore[misc]
    """One per rollout worker; what belongs to a trajectory lies under its instance. `config["door"]`: the service's."""

    def __init__(self, config: dict[str, Any], tool_schema: Any) -> None:
        super().__init__(config, tool_schema)
        self._rows: dict[str, dict[str, str]] = {}

    async def create(self, instance_id: str | None = None, **kwargs: Any) -> tuple[str, ToolResponse]:
        name = instance_id or str(uuid4())
        self._rows[name] = json.loads(kwargs["create_kwargs"]["truth"])
        return name, ToolResponse()

    async def execute(
        self, instance_id: str, parameters: dict[str, Any], **kwargs: Any
    ) -> tuple[ToolResponse, float, dict[str, Any]]:
        """The verdict in words. No step reward: what counts is the last program."""
        row = self._rows[instance_id]
        item = item_of(str(parameters.get("answer", "")), row["ground_truth"], row)
        found = await asyncio.to_thread(priced, item, self.config["door"])
        return ToolResponse(text=told(found)), 0.0, {}

    async def release(self, instance_id: str, **kwargs: Any) -> None:
        self._rows.pop(instance_id, None)
