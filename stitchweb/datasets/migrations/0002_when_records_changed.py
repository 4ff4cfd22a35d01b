import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("datasets", "0001_datasets")]

    operations = [
        migrations.AddField(
            model_name="keyring",
            name="records_at",
            field=models.DateTimeField(default=django.utils.timezone.now),
        ),
    ]
