"""Pytest plugin: runs the kits with the Python packages of Debian 12.

It supplies parts of newer releases: googleapis-common-protos, the version check of generated
protobuf code, and the keyword of registered gRPC methods. It does nothing where they exist.
HOLDFAST_KIT_HOST is a host name that resolves to this machine, because a kit rejects cards with
addresses of private networks.
"""

import importlib
import os
import socket
import sys
import types

import google.protobuf
import grpc
from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool  # any_pb2: registers its class
from google.protobuf.internal import builder

FIELD = descriptor_pb2.FieldDescriptorProto


def missing(name):
    try:
        importlib.import_module(name)
        return False
    except ImportError:
        return True


def add_module(name, file):
    """Registers a proto file and its generated module, unless the module is installed."""
    if not missing(name):
        return
    package, _, leaf = name.rpartition(".")
    parent = sys.modules.get(package)
    if parent is None:
        parent = types.ModuleType(package)
        parent.__path__ = []
        sys.modules[package] = parent
        setattr(sys.modules["google"], package.rpartition(".")[2], parent)
    module = types.ModuleType(name)
    module.DESCRIPTOR = descriptor_pool.Default().AddSerializedFile(file.SerializeToString())
    builder.BuildMessageAndEnumDescriptors(module.DESCRIPTOR, module.__dict__)
    builder.BuildTopDescriptorsAndMessages(module.DESCRIPTOR, name, module.__dict__)
    sys.modules[name] = module
    setattr(parent, leaf, module)


def proto(name, package, *imports):
    return descriptor_pb2.FileDescriptorProto(name=name, package=package, syntax="proto3", dependency=imports)


def field(message, name, number, kind, label=FIELD.LABEL_OPTIONAL, type_name=None):
    message.field.add(name=name, number=number, type=kind, label=label, type_name=type_name)


def status():
    file = proto("google/rpc/status.proto", "google.rpc", "google/protobuf/any.proto")
    message = file.message_type.add(name="Status")
    field(message, "code", 1, FIELD.TYPE_INT32)
    field(message, "message", 2, FIELD.TYPE_STRING)
    field(message, "details", 3, FIELD.TYPE_MESSAGE, FIELD.LABEL_REPEATED, ".google.protobuf.Any")
    return file


def error_details():
    file = proto("google/rpc/error_details.proto", "google.rpc")
    message = file.message_type.add(name="ErrorInfo")
    field(message, "reason", 1, FIELD.TYPE_STRING)
    field(message, "domain", 2, FIELD.TYPE_STRING)
    field(message, "metadata", 3, FIELD.TYPE_MESSAGE, FIELD.LABEL_REPEATED, ".google.rpc.ErrorInfo.MetadataEntry")
    entry = message.nested_type.add(name="MetadataEntry")
    entry.options.map_entry = True
    field(entry, "key", 1, FIELD.TYPE_STRING)
    field(entry, "value", 2, FIELD.TYPE_STRING)
    return file


def field_behavior():
    file = proto("google/api/field_behavior.proto", "google.api", "google/protobuf/descriptor.proto")
    values = ("FIELD_BEHAVIOR_UNSPECIFIED", "OPTIONAL", "REQUIRED", "OUTPUT_ONLY", "INPUT_ONLY", "IMMUTABLE")
    enum = file.enum_type.add(name="FieldBehavior")
    for number, name in enumerate(values):
        enum.value.add(name=name, number=number)
    file.extension.add(
        name="field_behavior", number=1052, type=FIELD.TYPE_ENUM, label=FIELD.LABEL_REPEATED,
        type_name=".google.api.FieldBehavior", extendee=".google.protobuf.FieldOptions",
    )
    return file


def resolving_here(resolve, name):
    def wrapped(host, *args, **kwargs):
        return resolve("127.0.0.1" if host in (name, name.encode()) else host, *args, **kwargs)

    return wrapped


def without_registered_method(call):
    def wrapped(*args, _registered_method=False, **kwargs):
        return call(*args, **kwargs)

    return wrapped


add_module("google.rpc.status_pb2", status())
add_module("google.rpc.error_details_pb2", error_details())
add_module("google.api.field_behavior_pb2", field_behavior())
add_module("google.api.annotations_pb2", proto("google/api/annotations.proto", "google.api"))
add_module("google.api.client_pb2", proto("google/api/client.proto", "google.api"))

if missing("google.protobuf.runtime_version"):
    version = types.ModuleType("google.protobuf.runtime_version")
    version.Domain = types.SimpleNamespace(PUBLIC=1)
    version.ValidateProtobufRuntimeVersion = lambda *args: None
    sys.modules["google.protobuf.runtime_version"] = version
    google.protobuf.runtime_version = version

if name := os.environ.get("HOLDFAST_KIT_HOST"):
    socket.getaddrinfo = resolving_here(socket.getaddrinfo, name)

# Generated code of gRPC imports a2a_pb2 by its short name. Old releases of protobuf make other classes then.
if not missing("specification.generated.a2a_pb2"):
    sys.modules["a2a_pb2"] = sys.modules["specification.generated.a2a_pb2"]

utilities = importlib.import_module("grpc._utilities")
if not hasattr(utilities, "first_version_is_lower"):
    utilities.first_version_is_lower = lambda *args: False
    channel = importlib.import_module("grpc._channel").Channel
    for kind in ("unary_unary", "unary_stream", "stream_unary", "stream_stream"):
        setattr(channel, kind, without_registered_method(getattr(channel, kind)))
