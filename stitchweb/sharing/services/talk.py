"""Comments, and who is named in them."""

from __future__ import annotations

import re

from django.db import transaction
from django.db.models import Q

from stitchweb.core.withheld import open_to
from stitchweb.sharing import signals
from stitchweb.sharing.access import comment_to_delete, publication_for
from stitchweb.sharing.models import Comment, Publication
from stitchweb.sharing.permissions import COMMENT
from stitchweb.teams.models import User

MAX_TEXT = 8_000
MAX_MENTIONS = 20
# What follows an @ at the beginning of a word: the first word of a name, or what stands before the @ of an address.
_MENTION = re.compile(r"(?<![\w@.])@([\w.+-]{1,64})")


class CommentRefused(Exception):
    """The comment was not taken. The message says why and what to do."""


def handle_of(user: User) -> str:
    """What a person is mentioned by: the part of their address before the @, which is unique enough within a team."""
    return user.email.split("@")[0].lower()


def mentioned_in(publication: Publication, text: str) -> list[User]:
    """The people of the publication's team whom the text names, by handle or by a name without spaces, each once.
    A query, and one per person named.

    Only people who may see the publication can be named, so that nobody else learns of it.
    """
    words = list(dict.fromkeys(word.rstrip(".-").lower() for word in _MENTION.findall(text)))[:MAX_MENTIONS]
    if not words:
        return []
    named = Q()
    for word in words:
        named |= Q(email__istartswith=f"{word}@") | Q(name__iexact=word) | Q(name__istartswith=f"{word} ")
    people = User.objects.filter(named, memberships__team=publication.team_id, is_active=True).distinct().order_by("pk")
    by_word: dict[str, list[User]] = {word: [] for word in words}
    for person in people:
        names = {handle_of(person), person.name.lower(), person.name.lower().split(" ")[0]}
        for word in words:
            if word in names:
                by_word[word].append(person)
    # A word that fits several people names those it fits whole, the handle before a first name.
    found: dict[int, User] = {}
    for word, fitting in by_word.items():
        exact = [p for p in fitting if handle_of(p) == word] or fitting
        found |= {p.pk: p for p in exact}
    this = Publication.objects.filter(pk=publication.pk)
    return [person for person in found.values() if this.filter(open_to(person, "program")).exists()]


@transaction.atomic
def comment(user: User, pk: int, text: str) -> Comment:
    """Say something under a publication. Tells `commented`, and `mentioned` once per person named who is not the author.

    CommentRefused for an empty or too long text; Http404 and PermissionDenied as `publication_for`.
    """
    publication = publication_for(user, pk, COMMENT)
    text = text.strip()
    if not text:
        raise CommentRefused("The comment is empty. Write something, then send it.")
    if len(text) > MAX_TEXT:
        raise CommentRefused(f"The comment has {len(text)} characters; at most {MAX_TEXT} are kept. Shorten it.")
    row = Comment.objects.create(publication=publication, author=user, text=text)
    people = mentioned_in(publication, text)
    row.mentions.set(people)
    place = f"{publication.get_absolute_url()}#comment-{row.pk}"
    told = {"by": user, "publication": publication, "comment": row, "place": place}
    signals.tell(signals.commented, Comment, **told)
    for person in people:
        if person.pk != user.pk:
            signals.tell(signals.mentioned, Comment, person=person, **told)
    return row


@transaction.atomic
def delete_comment(user: User, pk: int, comment_pk: int) -> None:
    """Delete a comment for good, by who wrote it or a maintainer."""
    comment_to_delete(user, publication_for(user, pk), comment_pk).delete()
