#!/usr/bin/env python3
"""An agent in Python, standard library only: counts the words of a text.

    holdfast serve --exec "python3 examples/exec/wordcount.py"

It shows progress, an artifact in chunks, a durable step and a question.
docs/exec.md tells the whole protocol.
"""

import collections
import json
import re
import sys


def say(type, **members):
    """Tells the server something."""
    print(json.dumps({"type": type, **members}), flush=True)


def hear():
    """Returns the next line of the server."""
    line = sys.stdin.readline()
    if not line:
        sys.exit("the server has closed the input")
    message = json.loads(line)
    if message["type"] == "cancel":
        sys.exit("canceled: " + message["reason"])
    return message


def step(name, work):
    """Does work once per turn, also when the turn has to begin again."""
    say("step", name=name)
    answer = hear()
    if answer["done"]:
        return answer["result"]
    result = work()
    say("step_done", name=name, result=result)
    hear()  # step_stored
    return result


def count(text):
    print("counting", file=sys.stderr)  # goes to the server's log
    words = re.findall(r"\w+", text.lower())
    return {"words": len(words), "top": collections.Counter(words).most_common(10)}


def main():
    turn = hear()
    if not turn["text"].strip():
        say("require_input", text="Send the text whose words I should count.")
        return
    say("status", text="counting")
    counts = step("count", lambda: count(turn["text"]))
    for word, times in counts["top"]:
        say("artifact", name="words", text=f"{times} {word}\n")
    say("artifact", name="words", parts=[{"kind": "data", "data": {"words": counts["words"]}}], last=True)
    say("result", text=f"{counts['words']} words")


if __name__ == "__main__":
    main()
