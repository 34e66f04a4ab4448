#!/usr/bin/env python3
"""An agent in Python, standard library only: counts the words of a text.

    holdfast serve --exec "python3 examples/exec/wordcount.py"

It shows progress, an artifact in chunks, a durable step and a question.
docs/exec.md describes the protocol.
"""

import collections
import json
import re
import sys


def write(type, **members):
    """Writes a line to the server."""
    print(json.dumps({"type": type, **members}), flush=True)


def read():
    """Reads the next line of the server."""
    line = sys.stdin.readline()
    if not line:
        sys.exit("the server has closed the input")
    message = json.loads(line)
    if message["type"] == "cancel":
        sys.exit("canceled: " + message["reason"])
    return message


def step(name, work):
    """Does work once per turn, also when the turn runs again."""
    write("step", name=name)
    answer = read()
    if answer["done"]:
        return answer["result"]
    result = work()
    write("step_done", name=name, result=result)
    read()  # step_stored
    return result


def count(text):
    print("counting", file=sys.stderr)  # standard error goes to the server's log
    words = re.findall(r"\w+", text.lower())
    return {"words": len(words), "top": collections.Counter(words).most_common(10)}


def main():
    turn = read()
    if not turn["text"].strip():
        write("require_input", text="Send the text whose words I should count.")
        return
    write("status", text="counting")
    counts = step("count", lambda: count(turn["text"]))
    for word, times in counts["top"]:
        write("artifact", name="words", text=f"{times} {word}\n")
    write("artifact", name="words", parts=[{"kind": "data", "data": {"words": counts["words"]}}], last=True)
    write("result", text=f"{counts['words']} words")


if __name__ == "__main__":
    main()
