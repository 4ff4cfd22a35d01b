from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("llm", "0001_models")]

    operations = [
        migrations.AddField(model_name="teammodel", name="test_findings", field=models.JSONField(blank=True, default=list)),
    ]
