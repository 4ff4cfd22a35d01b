"""All settings of the site. The only module of the shop that reads the environment.

Each reader call below is a row of docs/settings.md (`manage.py settings_table` prints it). Nothing has to be set: an empty
environment gives SQLite, an embedded broker and a secret key in the data folder.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

from gpu_runner.config import SANDBOX_KINDS
from stitchweb.core.databases import database
from stitchweb.core.embedded.paths import kept_secret, socket_path
from stitchweb.core.env import Environment
from stitchweb.core.mail import mail_server
from stitchweb.core.providers import providers

BASE_DIR = Path(__file__).resolve().parent.parent
env = Environment(os.environ)  # noqa: TID251  the one place

# Places and addresses
DATA_DIR = env.path(
    "DATA_DIR", BASE_DIR / "data", "Database, stored files, secret key and caches.", shown="`data/` in the checkout"
)
HOST = env.text("HOST", "127.0.0.1", "Address the web process listens on.")
PORT = env.number("PORT", 8000, "Port the web process listens on.", low=1, high=65535)
DATABASES = {
    "default": database(
        env.secret(
            "DATABASE_URL", "`sqlite:///path` or `postgresql://user:password@host:port/name`.", shown="SQLite in `DATA_DIR`"
        ),
        DATA_DIR,
    )
}
REDIS_URL = env.secret(
    "REDIS_URL",
    "Broker of tasks and doorbell of live pages: `redis://host:6379/0`, `rediss://…` or `unix:///path`.",
    shown="a private server: `valkey-server` or `redis-server` on PATH, else the bundled one",
)
JOB_ENDPOINT = env.text(
    "JOB_ENDPOINT", f"http://127.0.0.1:{PORT}", "Where runners reach the web process.", shown="`http://127.0.0.1:PORT`"
).rstrip("/")
_ADDRESS = "127.0.0.1" if HOST in ("0.0.0.0", "::") else HOST  # noqa: S104
SITE_URL = env.text(
    "SITE_URL", f"http://{_ADDRESS}:{PORT}", "Where people reach the site: begins printed links.", shown="`http://HOST:PORT`"
).rstrip("/")
RUNNER_BROKER_URL = env.text(
    "RUNNER_BROKER_URL",
    "",
    "Where runner hosts reach the broker, without user and password; each gets an account of its own.",
    shown="as `REDIS_URL`",
)
TIME_ZONE = env.text("TIME_ZONE", "UTC", "Time zone of the times shown.")

# Security
DEBUG = env.flag("DEBUG", False, "Django's debug pages. Never on a host that others can reach.")
SECRET_KEY = env.secret(
    "SECRET_KEY", "Signs sessions and job tokens, and seals the secrets of second factors.", shown="created in `DATA_DIR`"
) or kept_secret(DATA_DIR / "secret_key")
MODEL_KEYS_SECRET = env.secret(
    "MODEL_KEYS_SECRET",
    "Seals the keys of model services at rest. Web and agent workers need the same one; without it the stored keys are lost.",
    shown="created in `DATA_DIR`",
) or kept_secret(DATA_DIR / "model_keys_secret", "MODEL_KEYS_SECRET")
MODEL_SERVERS = env.words(
    "MODEL_SERVERS",
    (),
    "Model servers at inner addresses that teams may name: `HOST`, `HOST:PORT`, an address or a network such as `10.1.0.0/16`. "
    "Public addresses need no entry.",
)
ALLOWED_HOSTS = env.words("ALLOWED_HOSTS", ("127.0.0.1", "localhost", "[::1]"), "Host names that the site answers to.")
HTTPS = env.flag(
    "HTTPS", False, "The site is reached over HTTPS: secure cookies, HSTS, and X-Forwarded-Proto of the proxy is trusted."
)
HSTS_SUBDOMAINS = env.flag(
    "HSTS_SUBDOMAINS", False, "With HTTPS: every name below the site's is reached over HTTPS alone, which browsers may preload."
)
SIGN_UP = env.choice(
    "SIGN_UP", "invited", ("invited", "open"), "Who may make an account: who was invited to a team, or everybody."
)
_PROVIDERS = env.text(
    "SIGN_IN_PROVIDERS", "", "JSON file of sites to sign in by: GitHub, OpenID Connect, SAML ….", shown="none"
)
_MAIL_URL = env.secret(
    "EMAIL_URL", "Mail server: `smtp://user:password@host:587` or `smtps://…:465`.", shown="mail is written to the log"
)
MAIL_FROM = env.text("MAIL_FROM", "StitchWeb <stitchweb@localhost>", "Sender of mail.")
CSRF_TRUSTED_ORIGINS = [f"https://{host.lstrip('.')}" for host in ALLOWED_HOSTS if host != "*"] if HTTPS else []
if "*" in ALLOWED_HOSTS and not DEBUG:
    raise ImproperlyConfigured("ALLOWED_HOSTS is '*'. Name the hosts: cookies and WebSockets are checked against them.")

# Work
AGENT_THREADS = env.number("AGENT_THREADS", 4, "Runs that one agent worker drives at once.", low=1, high=64)
LEASE_SECONDS = env.number(
    "LEASE_SECONDS", 60, "A step whose worker is silent for so long is given to another.", low=2, high=3600
)
MAX_UPLOAD_KB = env.number("MAX_UPLOAD_KB", 1024, "Largest Python file that can be uploaded.", low=1, high=10240)
MAX_ARTIFACT_MB = env.number(
    "MAX_ARTIFACT_MB", 64, "Largest profiler report, trace or log a runner may store.", low=1, high=4096
)
MAX_PROFILE_MB = env.number(
    "MAX_PROFILE_MB", 256, "Largest profiler report, or set of them, that a person may bring to be read.", low=1, high=2048
)
UPLOADS_PER_HOUR = env.number("UPLOADS_PER_HOUR", 1000, "Programs that one person may upload in an hour.", low=1)
RUNS_AT_ONCE = env.number("RUNS_AT_ONCE", 100, "Runs that one person may have queued or under way at once.", low=1)
WRITES_PER_MINUTE = env.number("WRITES_PER_MINUTE", 300, "Forms that one person may send in a minute.", low=1)
UPLOAD_FORMS_PER_MINUTE = env.number("UPLOAD_FORMS_PER_MINUTE", 30, "Uploads that one person may send in a minute.", low=1)
LINKS_PER_MINUTE = env.number("LINKS_PER_MINUTE", 120, "Shared pages that one address may open in a minute.", low=1)
API_PER_MINUTE = env.number("API_PER_MINUTE", 600, "Requests that one API token may make in a minute.", low=1)
WEBHOOK_SERVERS = env.words(
    "WEBHOOK_SERVERS",
    (),
    "Servers at inner addresses that web hooks may tell: as in `MODEL_SERVERS`. Public addresses need no entry.",
)
QUARANTINE_AFTER = env.number(
    "QUARANTINE_AFTER", 5, "Jobs that fail in a row on one runner, by no fault of a program, until it takes no more.", low=1
)
SANDBOX = env.choice("SANDBOX", "", SANDBOX_KINDS, "What runners isolate programs with. `unsafe`: nothing, with a banner.")
LOG_LEVEL = env.choice("LOG_LEVEL", "INFO", ("DEBUG", "INFO", "WARNING", "ERROR"), "How much the processes say.")
LOG_FORMAT = env.choice("LOG_FORMAT", "line", ("line", "json"), "A line of text, or of JSON with the ids of run, step and job.")
METRICS_TOKEN = env.secret(
    "METRICS_TOKEN", "What Prometheus sends as a bearer token to `/metrics`.", shown="only this machine may ask, and no proxy"
)
OTEL_ENDPOINT = env.text(
    "OTEL_ENDPOINT", "", "Where spans are sent, `http://host:4318`; needs the packages of OpenTelemetry.", shown="nowhere"
)
KEEP_EVENTS_DAYS = env.number(
    "KEEP_EVENTS_DAYS", 0, "After so many days the log of an ended run is folded away; 0: never.", low=0, high=36500
)
KEEP_FILES_DAYS = env.number(
    "KEEP_FILES_DAYS", 0, "After so many days the profiler reports of an ended run are deleted; 0: never.", low=0, high=36500
)
KEEP_DRAFTS_DAYS = env.number(
    "KEEP_DRAFTS_DAYS", 0, "After so many days without a change a review's draft is deleted; 0: never.", low=0, high=36500
)

TESTING = "pytest" in sys.modules
METRICS_DIR = DATA_DIR / "metrics"
if not TESTING:
    # Prometheus' library reads it from the environment alone, when it is imported.
    os.environ.setdefault("PROMETHEUS_MULTIPROC_DIR", str(METRICS_DIR))  # noqa: TID251
# What a runner that `manage.py up` starts may know: where programs are, and its own settings. No secret of the site.
_OF_RUNNERS = re.compile(
    r"^(PATH|HOME|USER|LANG|LC_\w+|TZ|TMPDIR|XDG_\w+|LD_LIBRARY_PATH|CUDA_\w+|OMP_\w+|RUNNER_\w+|SANDBOX)$"
)
RUNNER_ENV = env.matching(_OF_RUNNERS)

# From here on nothing is read, only derived.
ROOT_URLCONF = "stitchweb.urls"
ASGI_APPLICATION = "stitchweb.asgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
AUTH_USER_MODEL = "teams.User"
USE_TZ = True
LANGUAGE_CODE = "en"

INSTALLED_APPS = [
    "daphne",  # before staticfiles: its runserver speaks ASGI
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.humanize",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "channels",
    "django_htmx",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.socialaccount",
    "stitchweb.core",
    "stitchweb.teams",
    "stitchweb.llm",
    "stitchweb.programs",
    "stitchweb.runs",
    "stitchweb.review",
    "stitchweb.sharing",
    "stitchweb.studio",
    "stitchweb.operate",
    "stitchweb.datasets",
    "stitchweb.notify",
    "stitchweb.api",
]

MIDDLEWARE = [
    "stitchweb.core.middleware.security_headers",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "stitchweb.core.gate.Gate",
    "allauth.account.middleware.AccountMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "stitchweb.core.context.site",
                "stitchweb.teams.context.teams",
            ],
        },
    }
]

# People
# Sign-in is django-allauth's: password, code by mail, passkey, a second factor, other sites. The link of `make run` beside it.
AUTHENTICATION_BACKENDS = ["allauth.account.auth_backends.AuthenticationBackend"]
SOCIALACCOUNT_PROVIDERS = providers(Path(_PROVIDERS) if _PROVIDERS else None)
INSTALLED_APPS += [f"allauth.socialaccount.providers.{name}" for name in SOCIALACCOUNT_PROVIDERS]
ACCOUNT_ADAPTER = "stitchweb.teams.adapters.Accounts"
MFA_ADAPTER = "stitchweb.teams.adapters.SecondFactors"
ACCOUNT_LOGIN_METHODS = {"email"}
ACCOUNT_SIGNUP_FIELDS = ["email*", "password1*"]
ACCOUNT_USER_MODEL_USERNAME_FIELD = None
ACCOUNT_EMAIL_VERIFICATION = "mandatory"
ACCOUNT_EMAIL_VERIFICATION_BY_CODE_ENABLED = True
ACCOUNT_LOGIN_BY_CODE_ENABLED = True
ACCOUNT_EMAIL_NOTIFICATIONS = True  # a changed password or a removed factor is told by mail
ACCOUNT_REAUTHENTICATION_METHODS = ("password", "code", "mfa", "link")
ACCOUNT_REAUTHENTICATION_TIMEOUT = 15 * 60
ACCOUNT_SESSION_REMEMBER = True
ACCOUNT_LOGOUT_REDIRECT_URL = "/login/?left"
ACCOUNT_DEFAULT_HTTP_PROTOCOL = "https" if HTTPS else "http"
ACCOUNT_MAX_EMAIL_ADDRESSES = 5
MFA_SUPPORTED_TYPES = ["totp", "webauthn", "recovery_codes"]
MFA_PASSKEY_LOGIN_ENABLED = True
MFA_ALLOW_UNVERIFIED_EMAIL = True
MFA_TOTP_ISSUER = "StitchWeb"
MFA_TOTP_TOLERANCE = 1
MFA_WEBAUTHN_ALLOW_INSECURE_ORIGIN = not HTTPS  # a browser allows it on localhost alone
ALLAUTH_TRUSTED_PROXY_COUNT = 1 if HTTPS else 0  # whose X-Forwarded-For is heeded when attempts are counted
SOCIALACCOUNT_LOGIN_ON_GET = False
_MAIL = mail_server(_MAIL_URL)
EMAIL_BACKEND, EMAIL_HOST, EMAIL_PORT = _MAIL.backend, _MAIL.host, _MAIL.port
EMAIL_HOST_USER, EMAIL_HOST_PASSWORD = _MAIL.user, _MAIL.password
EMAIL_USE_TLS, EMAIL_USE_SSL, EMAIL_TIMEOUT = _MAIL.starttls, _MAIL.tls, 10
DEFAULT_FROM_EMAIL = SERVER_EMAIL = MAIL_FROM
EMAIL_SUBJECT_PREFIX = ACCOUNT_EMAIL_SUBJECT_PREFIX = ""
LOGIN_URL = "/login/"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/login/"
SESSION_COOKIE_AGE = 14 * 24 * 3600
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = HTTPS
PASSWORD_HASHERS = ["django.contrib.auth.hashers.Argon2PasswordHasher", "django.contrib.auth.hashers.PBKDF2PasswordHasher"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
]

# Browser
X_FRAME_OPTIONS = "DENY"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
if HTTPS:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    # What runners and watchers of the service ask comes from beside the proxy, in plain.
    SECURE_SSL_REDIRECT = True
    SECURE_REDIRECT_EXEMPT = [r"^(jobs/|runners/(join|present))", r"^(health|healthz|readyz|metrics)/?$"]
    SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = HSTS_SUBDOMAINS
    SECURE_HSTS_SECONDS = (365 if HSTS_SUBDOMAINS else 30) * 24 * 3600
    # A browser takes a cookie of this name from this host over HTTPS alone, so no other name of the domain can plant one.
    SESSION_COOKIE_NAME, CSRF_COOKIE_NAME = "__Host-sessionid", "__Host-csrftoken"

# Uploads are read into memory, checked and stored as rows; a batch of them is bounded.
DATA_UPLOAD_MAX_MEMORY_SIZE = max(8 * 1024, 4 * MAX_UPLOAD_KB) * 1024
DATA_UPLOAD_MAX_NUMBER_FILES = 500

# Files
STATIC_URL = "/static/"
STATIC_ROOT = DATA_DIR / "static"
STATICFILES_DIRS = [BASE_DIR / "static"]
MEDIA_ROOT = DATA_DIR / "media"  # never served as such: every stored file goes through a view that checks access
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"
        if DEBUG or TESTING
        else "whitenoise.storage.CompressedManifestStaticFilesStorage"
    },
}

# Broker and doorbell. The kept socket of the embedded server is known before it runs, so any process finds it.
BROKER_SOCKET = socket_path(DATA_DIR)
BROKER_URL = REDIS_URL or f"unix://{BROKER_SOCKET}"
CACHES = {
    "default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}
    if TESTING
    else {"BACKEND": "stitchweb.core.cache.SurvivingCache", "LOCATION": BROKER_URL, "KEY_PREFIX": "stitchweb"}
}
CHANNEL_LAYERS = {
    "default": {
        # Publish and subscribe: a bounded list per channel would drop silently and stay full; here a socket that is away
        # misses a doorbell and looks for itself two seconds later.
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        # redis-py 8 ends an idle read after five seconds unless told otherwise, and that ends the consumer.
        "CONFIG": {"hosts": [{"address": BROKER_URL, "socket_timeout": None, "socket_connect_timeout": 5}]},
    }
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"},
        "json": {"()": "stitchweb.core.logs.JsonLines"},
    },
    "filters": {"broker-away": {"()": "stitchweb.core.logs.BrokerAway"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": LOG_FORMAT}},
    "root": {"handlers": ["console"], "level": LOG_LEVEL},
    "loggers": {
        "channels_redis.pubsub": {"filters": ["broker-away"]},
        "daphne": {"level": "WARNING"},
        "django.channels.server": {"level": "WARNING"},
        "django.request": {"level": "ERROR"},
    },
}
