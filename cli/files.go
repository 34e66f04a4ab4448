package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/cli/command"
)

// maxInput is the maximum size of a file or of stdin, in bytes. No agent accepts larger messages.
const maxInput = 256 << 20

// stdinOnce reads stdin and rejects a second read.
type stdinOnce struct {
	r    io.Reader
	done bool
}

func (s *stdinOnce) read() ([]byte, error) {
	if s.done {
		return nil, command.Usagef("stdin can be sent only once")
	}
	s.done = true
	return readLimited(s.r, "stdin")
}

func readLimited(r io.Reader, name string) ([]byte, error) {
	if r == nil {
		return nil, nil
	}
	content, err := io.ReadAll(io.LimitReader(r, maxInput+1))
	if err != nil {
		var named *fs.PathError
		if errors.As(err, &named) {
			err = named.Err // without the name, which is added below
		}
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if len(content) > maxInput {
		return nil, a2a.Errorf(a2a.CodeTooLarge, "%s is larger than the maximum of %d MiB", name, maxInput>>20)
	}
	return content, nil
}

func filePart(name string, stdin *stdinOnce) (a2a.Part, error) {
	if name == "-" {
		content, err := stdin.read()
		return a2a.FilePart{File: a2a.FileWithBytes{Name: "stdin", MimeType: command.MediaType("", content), Bytes: content}}, err
	}
	if strings.HasPrefix(name, "https://") || strings.HasPrefix(name, "http://") {
		return remotePart(name)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	content, err := readLimited(f, name)
	if err != nil {
		return nil, err
	}
	base := filepath.Base(name)
	return a2a.FilePart{File: a2a.FileWithBytes{Name: base, MimeType: command.MediaType(base, content), Bytes: content}}, nil
}

// remotePart returns a part with the URI of a file, which the agent fetches.
func remotePart(uri string) (a2a.Part, error) {
	u, err := url.Parse(uri)
	if err != nil || u.Host == "" {
		return nil, command.Usagef("the file %s is not a URL", a2a.Quote(uri))
	}
	name := path.Base(u.Path)
	if name == "." || name == "/" {
		name = u.Host
	}
	return a2a.FilePart{File: a2a.FileWithURI{Name: name, MimeType: command.CommonMediaType(u.Path), URI: uri}}, nil
}
