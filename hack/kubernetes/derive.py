#!/usr/bin/env python3
"""Derives the data files of ome.api.kubernetes from the Kubernetes modules that go.mod of this folder names.

definitions.json.gz  the OpenAPI v3 component schemas and kinds of the API groups that the embedded cluster serves
enumerations.json.gz definition -> property -> [allowed values, whether they are a list's elements, their explanation]
protobuf.json.gz     message -> field number -> [field name, type, repeated?], from the generated.proto files

Run it after a change of the Kubernetes version: `python3 hack/kubernetes/derive.py` (needs go and the module cache).
"""

import gzip
import json
import pathlib
import re
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
TARGET = HERE.parents[1] / "src" / "ome" / "api" / "kubernetes"
GROUP_VERSIONS = (
    "api__v1",
    "apis__admissionregistration.k8s.io__v1",
    "apis__apiextensions.k8s.io__v1",
    "apis__apps__v1",
    "apis__authentication.k8s.io__v1",
    "apis__authorization.k8s.io__v1",
    "apis__autoscaling__v1",
    "apis__autoscaling__v2",
    "apis__batch__v1",
    "apis__certificates.k8s.io__v1",
    "apis__coordination.k8s.io__v1",
    "apis__discovery.k8s.io__v1",
    "apis__events.k8s.io__v1",
    "apis__networking.k8s.io__v1",
    "apis__node.k8s.io__v1",
    "apis__policy__v1",
    "apis__rbac.authorization.k8s.io__v1",
    "apis__scheduling.k8s.io__v1",
    "apis__storage.k8s.io__v1",
)


def module(name: str) -> pathlib.Path:
    out = subprocess.run(["go", "list", "-m", "-json", name], cwd=HERE, check=True, capture_output=True, text=True)
    return pathlib.Path(json.loads(out.stdout)["Dir"])


def definitions(root: pathlib.Path) -> dict:
    schemas: dict = {}
    for name in GROUP_VERSIONS:
        document = json.loads((root / "api" / "openapi-spec" / "v3" / f"{name}_openapi.json").read_text())
        for key, schema in document["components"]["schemas"].items():
            known = schemas.get(key)
            if known is None:
                schemas[key] = schema
                continue
            kinds = known.get("x-kubernetes-group-version-kind", [])
            for kind in schema.get("x-kubernetes-group-version-kind", []):
                if kind not in kinds:
                    known.setdefault("x-kubernetes-group-version-kind", []).append(kind)
    return dict(sorted(schemas.items()))


FUNCTION = re.compile(r"^func schema_k8sio_(api|apimachinery_pkg_apis)_(\w+?)_(v\w+?)_(\w+)\(ref", re.M)
PROPERTY = re.compile(r'^\t{5}"(\w+)": \{$', re.M)
EXPLAINED = "\\n\\nPossible enum values:"


def enumerations(root: pathlib.Path) -> dict:
    """What the published documents leave out: the values of enumerations, as the server's own document has them."""
    text = (root / "pkg" / "generated" / "openapi" / "zz_generated.openapi.go").read_text()
    starts = list(FUNCTION.finditer(text))
    out: dict = {}
    for start, after in zip(starts, [*starts[1:], None], strict=False):
        body = text[start.end() : text.find("\n}\n", start.end()) if after is None else after.start()]
        group, version, name = start[2], start[3], start[4]
        definition = f"io.k8s.api.{group}.{version}.{name}"
        if start[1] != "api":
            definition = f"io.k8s.apimachinery.pkg.apis.{group}.{version}.{name}"
        properties = list(PROPERTY.finditer(body))
        for found, following in zip(properties, [*properties[1:], None], strict=False):
            block = body[found.end() : following.start() if following else len(body)]
            values = re.search(r"Enum:\s+\[\]interface\{\}\{(.*?)\},", block)
            if values is None:
                continue
            explained = re.search(r'Description: ("(?:[^"\\]|\\.)*")', block)
            told = json.loads(explained[1]) if explained and EXPLAINED in explained[1] else ""
            told = told[told.index("\n\nPossible enum values:") :] if told else ""
            is_list = "Items:" in block[: values.start()]
            allowed = json.loads(f"[{values[1]}]")
            out.setdefault(definition, {})[found[1]] = [allowed, is_list, told]
    return dict(sorted(out.items()))


PACKAGE = re.compile(r"^package ([\w.]+);", re.M)
TOKEN = re.compile(
    r"^\s*(?:(message) (\w+) \{|(\})|(optional|repeated)? ?(map<\w+, ?[.\w]+>|[.\w]+) (\w+) = (\d+)(?: \[.*\])?;)", re.M
)


def strip_comments(text: str) -> str:
    return re.sub(r"^\s*//.*$", "", text, flags=re.M)


def messages(roots: list[pathlib.Path]) -> dict:
    found: dict = {}
    for root in roots:
        for path in sorted(root.rglob("generated.proto")):
            text = strip_comments(path.read_text())
            package = PACKAGE.search(text).group(1)
            stack: list[str] = []
            for match in TOKEN.finditer(text):
                is_message, name, close, label, kind, field, number = match.groups()
                if is_message:
                    stack.append(name)
                    found[f"{package}.{name}"] = {}
                elif close:
                    if stack:
                        stack.pop()
                elif stack:
                    kind = kind.lstrip(".")
                    if "." not in kind and f"{package}.{kind}" and kind[0].isupper():
                        kind = f"{package}.{kind}"
                    found[f"{package}.{stack[-1]}"][number] = [field, kind, label == "repeated"]
    return dict(sorted(found.items()))


def write(name: str, value: object) -> None:
    raw = json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
    target = TARGET / name
    target.write_bytes(gzip.compress(raw, 9, mtime=0))
    print(f"{name}: {len(raw)} bytes, {target.stat().st_size} packed")


def main() -> None:
    write("definitions.json.gz", definitions(module("k8s.io/kubernetes")))
    write("enumerations.json.gz", enumerations(module("k8s.io/kubernetes")))
    roots = [module("k8s.io/api"), module("k8s.io/apimachinery"), module("k8s.io/apiextensions-apiserver")]
    write("protobuf.json.gz", messages(roots))


if __name__ == "__main__":
    main()
