"""Provider, TeamModel, RoleDefault and TeamPrompt."""

from __future__ import annotations

import secrets

from django.conf import settings
from django.db import models
from django.utils import timezone

from agents.model_choice import ModelChoice
from stitchweb.teams.models import Team

SERVER = "server"  # the kind of a provider that is reached by a base URL
# Hosted services: as LiteLLM names them, and as people do. Each has one address of its own, so none of these can be led inside.
HOSTED = (
    ("anthropic", "Anthropic"),
    ("cerebras", "Cerebras"),
    ("deepseek", "DeepSeek"),
    ("fireworks_ai", "Fireworks AI"),
    ("gemini", "Google Gemini"),
    ("groq", "Groq"),
    ("mistral", "Mistral"),
    ("openai", "OpenAI"),
    ("openrouter", "OpenRouter"),
    ("perplexity", "Perplexity"),
    ("together_ai", "Together AI"),
    ("xai", "xAI"),
)
KINDS = ((SERVER, "A server with OpenAI's protocol"), *HOSTED)
# What a test looks at beside the answer itself, as people say it.
PARTS = {
    "streaming": "streaming", "speed": "speed", "context": "long questions", "tools": "tools", "structure": "JSON schema"
}  # fmt: skip
ROLES = (("planner", "Planner"), ("coder", "Coder"), ("verifier", "Verifier"))


def new_ident() -> str:
    """A name for a provider that says nothing and is nobody else's."""
    return secrets.token_hex(8)


class Provider(models.Model):
    """A service that a team asks models of. `ident` is the name that states and events know it by.

    `sealed`: the key, as `vault` seals it, empty without one; `ending`: its last characters where it is long enough for that.
    """

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="providers")
    ident = models.CharField(max_length=16, unique=True, default=new_ident)
    name = models.CharField(max_length=60)
    kind = models.CharField(max_length=20, choices=KINDS)
    api_base = models.CharField(max_length=300, blank=True)
    sealed = models.TextField(blank=True)
    ending = models.CharField(max_length=4, blank=True)
    key_at = models.DateTimeField(null=True, blank=True)
    key_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(fields=["team", "name"], name="one_provider_per_name"),
            models.CheckConstraint(
                condition=models.Q(kind=SERVER) & ~models.Q(api_base="") | ~models.Q(kind=SERVER) & models.Q(api_base=""),
                name="only_servers_have_a_base_url",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class TeamModel(models.Model):
    """A model of a provider. Prices in dollars a million tokens: `price_*` as the team says, `known_*` as LiteLLM's list had it
    when the model was last tested. `test_state`: "asked" while the agent worker has not answered."""

    provider = models.ForeignKey(Provider, on_delete=models.CASCADE, related_name="models")
    name = models.CharField(max_length=120)
    max_tokens = models.PositiveIntegerField(default=16_384)
    context = models.PositiveIntegerField(null=True, blank=True)
    temperature = models.FloatField(null=True, blank=True)
    price_in = models.FloatField(null=True, blank=True)
    price_out = models.FloatField(null=True, blank=True)
    known_in = models.FloatField(null=True, blank=True)
    known_out = models.FloatField(null=True, blank=True)
    test_state = models.CharField(max_length=8, blank=True, choices=[(w, w) for w in ("asked", "ok", "failed")])
    test_sentence = models.CharField(max_length=800, blank=True)
    test_findings = models.JSONField(default=list, blank=True)  # part, health and sentence of each, as the doctor tells them
    tested_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["provider__name", "name"]
        constraints = [models.UniqueConstraint(fields=["provider", "name"], name="one_model_per_name")]

    def __str__(self) -> str:
        return f"{self.provider.name}: {self.name}"

    @property
    def litellm_name(self) -> str:
        return f"{'openai' if self.provider.kind == SERVER else self.provider.kind}/{self.name}"

    @property
    def price(self) -> tuple[float, float] | None:
        """What is reckoned with, as far as is known: dollars a million tokens in and out."""
        for pair in ((self.price_in, self.price_out), (self.known_in, self.known_out)):
            if pair[0] is not None and pair[1] is not None:
                return pair[0], pair[1]
        return None

    @property
    def lacking(self) -> list[dict[str, str]]:
        """What the last test found that a run has to do without."""
        return [found for found in self.test_findings if found.get("health") == "warn"]

    @property
    def able(self) -> list[str]:
        """What the last test found to be well, in words of one or two."""
        return [PARTS[found["part"]] for found in self.test_findings if found.get("health") == "ok" and found["part"] in PARTS]

    @property
    def choice(self) -> ModelChoice:
        """The model as a run's options carry it: without a key, with the provider's name under which its key is asked for."""
        return ModelChoice(
            model=self.litellm_name,
            api_base=self.provider.api_base,
            key=self.provider.ident,
            max_tokens=self.max_tokens,
            context=self.context,
            temperature=self.temperature,
            price_in=self.price_in,
            price_out=self.price_out,
        )


class RoleDefault(models.Model):
    """The model that a role of a new run asks unless the person says otherwise. A role without a row: the offline engineer."""

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="role_defaults")
    role = models.CharField(max_length=10, choices=ROLES)
    model = models.ForeignKey(TeamModel, on_delete=models.CASCADE, related_name="+")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["team", "role"], name="one_default_per_role")]

    def __str__(self) -> str:
        return f"{self.role}: {self.model_id}"


class TeamPrompt(models.Model):
    """A prompt of a team in the place of ours. Runs carry the texts that they were started with."""

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="prompts")
    name = models.CharField(max_length=40)
    text = models.TextField()
    changed_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    changed_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["team", "name"], name="one_text_per_prompt")]

    def __str__(self) -> str:
        return self.name
