"""Joins images for one architecture each, tars of OCI layouts as BuildKit writes them, to one image of all.

    image_index.py JOINED IMAGE...

JOINED is again the tar of an OCI layout, with the index as its only entry, and the same bytes for the same images. Prints
the digest of the index, which is that of the image wherever it is pushed.
"""

import io
import json
import sys
import tarfile
from hashlib import sha256

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"


def digest_of(content):
    return f"sha256:{sha256(content).hexdigest()}"


def blob(digest):
    """The name of a content in a layout."""
    return f"blobs/{digest.replace(':', '/')}"


def read(path):
    """The files of a layout by their names. Every content has the digest that it is named by."""
    with tarfile.open(path) as tar:
        files = {member.name: tar.extractfile(member).read() for member in tar if member.isfile()}
    for name, content in files.items():
        if name.startswith("blobs/") and name != blob(digest_of(content)):
            sys.exit(f"{path}: {name} has the digest {digest_of(content)}")
    return files


def entry(path, files):
    """The entry of an index for the only image of a layout."""
    found = json.loads(files["index.json"])["manifests"]
    if [it["mediaType"] for it in found] != [MANIFEST]:
        sys.exit(f"{path}: one image is expected, and there is {found}")
    manifest = files[blob(found[0]["digest"])]
    config = json.loads(files[blob(json.loads(manifest)["config"]["digest"])])
    platform = {key: config[key] for key in ("architecture", "os", "variant") if key in config}
    return {"mediaType": MANIFEST, "digest": digest_of(manifest), "size": len(manifest), "platform": platform}


def joined(paths):
    """The files of the layout of all images, and the digest of their index."""
    layouts = [(path, read(path)) for path in paths]
    entries = [entry(*layout) for layout in layouts]
    if len({json.dumps(it["platform"]) for it in entries}) < len(entries):
        sys.exit(f"two images are for the same platform: {entries}")
    index = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": entries}).encode()
    top = {"mediaType": INDEX, "digest": digest_of(index), "size": len(index)}
    contents = {name: content for _, files in layouts for name, content in files.items() if name.startswith("blobs/")}
    return {
        "oci-layout": json.dumps({"imageLayoutVersion": "1.0.0"}).encode(),
        "index.json": json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": [top]}).encode(),
        **dict(sorted(contents.items())), blob(top["digest"]): index,
    }, top["digest"]  # fmt: skip


if __name__ == "__main__":
    files, digest = joined(sys.argv[2:])
    with tarfile.open(sys.argv[1], "w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    print(digest)
