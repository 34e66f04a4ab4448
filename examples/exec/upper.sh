#!/bin/sh
# An agent in POSIX shell: answers with the message in upper case.
#
#   holdfast serve --exec ./examples/exec/upper.sh
#
# The first line on standard input is the turn, a JSON object that starts with
# {"type":"turn","text":"...". The script extracts the text without decoding it:
# escaped characters stay escaped, which is valid in the answer too.
# docs/exec.md describes the protocol.

IFS= read -r turn || exit 1

upper=$(printf '%s\n' "$turn" | awk '
	!match($0, /^[{]"type":"turn","text":"/) { exit 1 }
	{
		rest = substr($0, RLENGTH + 1)
		while (rest != "" && substr(rest, 1, 1) != "\"") {
			if (substr(rest, 1, 1) == "\\") {
				# \n, \" and so on; \u is followed by four digits.
				size = substr(rest, 2, 1) == "u" ? 6 : 2
				printf "%s", substr(rest, 1, size)
			} else {
				match(rest, /^[^"\\]+/)
				size = RLENGTH
				printf "%s", toupper(substr(rest, 1, size))
			}
			rest = substr(rest, size + 1)
		}
	}') || {
	echo 'the first line is not a turn' >&2
	exit 1
}

if [ -z "$upper" ]; then
	echo '{"type":"require_input","text":"Send some text."}'
	exit
fi
echo '{"type":"status","text":"shouting"}'
printf '{"type":"artifact","name":"upper","text":"%s","last":true}\n' "$upper"
echo '{"type":"result","text":"Done."}'
