"""What the operator may ask of the API server: five verbs over plain dicts."""

from collections.abc import Callable
from typing import Literal, Protocol

from tierwright.kube.resources import Object, ObjectRef, ResourceKind

PatchType = Literal["application/merge-patch+json", "application/json-patch+json"]
Propagation = Literal["Background", "Foreground", "Orphan"]
Objects = list[Object]


class KubeClient(Protocol):
    """The verbs that the operator uses. All raise ApiError and NetworkError; objects are plain dicts."""

    async def get(self, ref: ObjectRef) -> Object | None:
        """One object; None when it does not exist."""

    async def list(
        self,
        kind: ResourceKind,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 500,
        keep: Callable[[Object], Object] | None = None,
    ) -> Objects:
        """All objects that match, read in pages of ``limit``; in every namespace when none is given.

        ``keep`` makes of each object what is returned, page by page, so that a long list need not fit into memory.

        apiVersion and kind are filled in on each item (lists leave them out).
        """

    async def apply(
        self,
        manifest: Object,
        *,
        manager: str,
        kind: ResourceKind | None = None,
        force: bool = True,
        subresource: str | None = None,
        dry_run: bool = False,
    ) -> Object:
        """Server-side apply by ``manager``, creation included; unknown fields are refused (400).

        ``kind`` is needed only for kinds of our own. A ``metadata.uid`` in the manifest makes it a 409 when the
        object is gone or another. With ``force`` false a field owned by another manager is a 409 whose causes
        name field and manager.
        """

    async def patch(
        self,
        ref: ObjectRef,
        body: Object | Objects,
        *,
        content_type: PatchType = "application/merge-patch+json",
        manager: str | None = None,
        subresource: str | None = None,
    ) -> Object:
        """Changes an existing object; ApiError 404 when there is none."""

    async def delete(
        self, ref: ObjectRef, *, uid: str | None = None, propagation: Propagation = "Background"
    ) -> bool:
        """Deletes an object; False when it did not exist. With ``uid`` only that very object (else ApiError 409)."""
