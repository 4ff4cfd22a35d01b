"""Who was here before sign-in by address is known by theirs: whoever runs the site had made them."""

from __future__ import annotations

from typing import Any

from django.db import migrations


def know(apps: Any, editor: Any) -> None:
    addresses = apps.get_model("account", "EmailAddress")
    people = apps.get_model("teams", "User").objects.exclude(pk__in=addresses.objects.values("user"))
    addresses.objects.bulk_create(
        addresses(user_id=pk, email=email, verified=True, primary=True) for pk, email in people.values_list("pk", "email")
    )


class Migration(migrations.Migration):
    dependencies = [("teams", "0002_invitations"), ("account", "0009_emailaddress_unique_primary_email")]

    operations = [migrations.RunPython(know, migrations.RunPython.noop)]
