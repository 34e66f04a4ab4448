#!/usr/bin/env python3
"""Is told by Holdfast what becomes of tasks, and prints it. Standard library only;
docs/webhooks.md explains what it relies on.

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
REMEMBER = 100_000  # events, of which a repetition is known


def secrets_from(text):
    try:
        return [base64.b64decode(s.removeprefix("whsec_"), validate=True) for s in text.split()]
    except binascii.Error:
        sys.exit("WEBHOOK_SECRET is not whsec_ and base64")


TOKEN = os.environ.get("WEBHOOK_TOKEN", "")
SECRETS = secrets_from(os.environ.get("WEBHOOK_SECRET", ""))


class Refused(Exception):
    """The request is not from the agent."""


def verify(headers, body, now):
    """Raises Refused unless token and signature are right."""
    if TOKEN:
        given = headers.get("Authorization", "").encode("latin-1", "replace")
        if not hmac.compare_digest(given, f"Bearer {TOKEN}".encode()):
            raise Refused("wrong token")
    if not SECRETS:
        return
    id, stamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not stamp.isascii() or not stamp.isdigit() or len(stamp) > 12:
        raise Refused("no timestamp")
    if abs(now - int(stamp)) > TOLERANCE:
        raise Refused("too old, or from the future")
    # There are several while a secret is changed.
    given = [s.encode("latin-1", "replace") for s in headers.get("webhook-signature", "").split()]
    for secret in SECRETS:
        mac = hmac.new(secret, f"{id}.{stamp}.".encode("latin-1") + body, hashlib.sha256)
        want = b"v1," + base64.b64encode(mac.digest())
        if any(hmac.compare_digest(s, want) for s in given):
            return
    raise Refused("wrong signature")


# What was received. A receiver that must not forget keeps it in its database, and
# writes it in the transaction that does what the event calls for.
lock = threading.Lock()
seen = {}  # by event_id, the oldest first
last = {}  # sequence by task


def receive(event):
    """Prints an event unless it was received before."""
    task, sequence = event["task_id"], event["sequence"]
    with lock:
        if event["event_id"] in seen:
            print(f"again: {task} {sequence}", file=sys.stderr, flush=True)
            return
        before, note = last.get(task, 0), ""
        if sequence < before:
            note = " (late)"  # replayed: what came after it is known
        elif before and sequence > before + 1:
            note = " (some before it are missing)"  # dead letters: ask for them, or for the task
        print(f"{task} {sequence} {what(event)}{note}", flush=True)
        last[task] = max(before, sequence)
        seen[event["event_id"]] = True
        if len(seen) > REMEMBER:
            del seen[next(iter(seen))]


def what(event):
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
    protocol_version = "HTTP/1.1"  # keeps the connection for the next event
    timeout = 30

    def do_POST(self):
        length = self.headers.get("Content-Length", "")
        if not length.isdigit() or int(length) > MAX_BODY:
            self.close_connection = True
            return self.answer(413, "the body is too large or has no length")
        body = self.rfile.read(int(length))  # the bytes as they came: they are what was signed
        try:
            verify(self.headers, body, time.time())
        except Refused as why:
            print("refused:", why, file=sys.stderr, flush=True)
            return self.answer(401, str(why))
        try:
            receive(json.loads(body))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return self.answer(400, "not an event")
        # Only now: what is not answered with 2xx comes again.
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
        sys.exit("set WEBHOOK_TOKEN, WEBHOOK_SECRET or both: else anybody could tell us anything")
    server = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "8000"))), Handler)
    print("listening on http://%s:%d/" % server.server_address, file=sys.stderr, flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
