package cli

import (
	"os"
	"strings"
	"unsafe"
)

// secretFlags are those whose values nobody else is to see. URLs of webhooks may carry keys.
var secretFlags = []string{
	"--token", "--database-url", "--webhook", "--webhook-url", "--webhook-token", "--webhook-secret", "--push-secret-key", "--push-egress-proxy",
}

// HideSecrets returns the command line of the process, after it has overwritten the
// secrets of it where other users of the machine can see them, in the list of
// processes. It is called once, before anything else.
func HideSecrets() []string {
	args := make([]string, len(os.Args))
	for i, arg := range os.Args {
		args[i] = strings.Clone(arg)
	}
	for i, arg := range args {
		for _, flag := range secretFlags {
			switch {
			case strings.HasPrefix(arg, flag+"="):
				overwrite(os.Args[i][len(flag)+1:])
			case arg == flag && i+1 < len(args):
				overwrite(os.Args[i+1])
			}
		}
	}
	os.Args = args
	return args
}

// overwrite changes a part of os.Args, which on Linux is the memory that the kernel
// shows as the command line.
func overwrite(part string) {
	if part == "" {
		return
	}
	for i := range len(part) {
		*(*byte)(unsafe.Add(unsafe.Pointer(unsafe.StringData(part)), i)) = '*'
	}
}
