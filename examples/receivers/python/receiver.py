#!/usr/bin/env python3
"""Receives webhook requests from Holdfast and prints the events of tasks. It uses only the
standard library. docs/webhooks.md describes the requests.

    WEBHOOK_TOKEN=s3cret WEBHOOK_SECRET=whsec_... python3 examples/receivers/python/receiver.py
"""

import base64
import binascii
import hashlib
import hmac
import json
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MAX_BODY = 128 << 20
TOLERANCE = 5 * 60  # seconds
MAX_REMEMBERED = 100_000  # event ids, to detect duplicates


def secrets_from(text):
    try:
        return [base64.b64decode(s.removeprefix("whsec_"), validate=True) for s in text.split()]
    except binascii.Error:
        sys.exit("WEBHOOK_SECRET must be whsec_ followed by base64")


TOKEN = os.environ.get("WEBHOOK_TOKEN", "")
SECRETS = secrets_from(os.environ.get("WEBHOOK_SECRET", ""))


class Unauthorized(Exception):
    """The request is not from the agent."""


def verify(headers, body, now):
    """Raises Unauthorized unless the token and the signature of a request are valid."""
    if TOKEN:
        given = headers.get("Authorization", "").encode("latin-1", "replace")
        if not hmac.compare_digest(given, f"Bearer {TOKEN}".encode()):
            raise Unauthorized("wrong token")
    if not SECRETS:
        return
    id, stamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not stamp.isascii() or not stamp.isdigit() or len(stamp) > 12:
        raise Unauthorized("no timestamp")
    if abs(now - int(stamp)) > TOLERANCE:
        raise Unauthorized("timestamp is too old or in the future")
    # There are several signatures while a secret is rotated.
    given = [s.encode("latin-1", "replace") for s in headers.get("webhook-signature", "").split()]
    for secret in SECRETS:
        mac = hmac.new(secret, f"{id}.{stamp}.".encode("latin-1") + body, hashlib.sha256)
        want = b"v1," + base64.b64encode(mac.digest())
        if any(hmac.compare_digest(s, want) for s in given):
            return
    raise Unauthorized("wrong signature")


# Received events. A durable receiver stores them in its database, in the same transaction as
# the effects of the event.
lock = threading.Lock()
seen = {}  # by event_id, oldest first
last = {}  # highest sequence by task


def receive(event):
    """Prints an event unless it is a duplicate."""
    task, sequence = event["task_id"], event["sequence"]
    with lock:
        if event["event_id"] in seen:
            print(f"duplicate: {task} {sequence}", file=sys.stderr, flush=True)
            return
        before, note = last.get(task, 0), ""
        if sequence < before:
            note = " (late)"  # replayed: later events were received before
        elif before and sequence > before + 1:
            note = " (some before it are missing)"  # dead letters: replay them, or get the task
        print(f"{task} {sequence} {describe(event)}{note}", flush=True)
        last[task] = max(before, sequence)
        seen[event["event_id"]] = True
        if len(seen) > MAX_REMEMBERED:
            del seen[next(iter(seen))]


def describe(event):
    if event["kind"] == "artifact-update":
        artifact = event["artifact"]
        note = " (complete)" if event.get("last_chunk") else ""
        if not event.get("append") and not artifact["parts"]:
            note = " (withdrawn)"
        return "artifact " + (artifact.get("name") or artifact["artifact_id"]) + note
    status = event["status"]
    text = status["state"]
    parts = status.get("message", {}).get("parts", [])
    if parts:
        text += ": " + parts[0].get("text", "")
    return text + (" (final)" if event["final"] else "")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # reuses the connection for the next event
    timeout = 30

    def do_POST(self):
        length = self.headers.get("Content-Length", "")
        if not length.isdigit() or int(length) > MAX_BODY:
            self.close_connection = True
            return self.answer(413, "the body is too large or has no length")
        body = self.rfile.read(int(length))  # the signature is over the unmodified bytes
        try:
            verify(self.headers, body, time.time())
        except Unauthorized as why:
            print("refused:", why, file=sys.stderr, flush=True)
            return self.answer(401, str(why))
        try:
            receive(json.loads(body))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return self.answer(400, "not an event")
        # Respond last: Holdfast resends events without a 2xx response.
        self.answer(204)

    def answer(self, status, text=""):
        self.send_response(status)
        if status != 204:
            self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *args):
        pass


def main():
    if not TOKEN and not SECRETS:
        sys.exit("set WEBHOOK_TOKEN, WEBHOOK_SECRET or both: otherwise anybody can send events")
    server = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "8000"))), Handler)
    print("listening on http://%s:%d/" % server.server_address, file=sys.stderr, flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
