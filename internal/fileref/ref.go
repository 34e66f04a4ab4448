package fileref

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store/blob"
)

// Threshold is the size in bytes above which the content of a file becomes a blob.
const Threshold = 64 << 10

// scheme is the scheme of references. Clients cannot send it.
const scheme = "holdfast-blob:"

// Ref refers to the content of a file.
type Ref struct {
	Blob   string
	Size   int64
	Digest blob.Digest
}

// uri returns the form in which a part contains r.
func (r Ref) uri() string {
	return fmt.Sprintf("%s%s?size=%d&sha256=%s", scheme, r.Blob, r.Size, r.Digest)
}

// Of returns the reference of a file, if it is one.
func Of(f a2a.File) (r Ref, ok bool) {
	file, ok := f.(a2a.FileWithURI)
	if !ok {
		return Ref{}, false
	}
	rest, ok := strings.CutPrefix(file.URI, scheme)
	if !ok {
		return Ref{}, false
	}
	rest, digest, ok := strings.Cut(rest, "&sha256=")
	if !ok || len(digest) != 2*len(r.Digest) {
		return Ref{}, false
	}
	var size string
	if r.Blob, size, ok = strings.Cut(rest, "?size="); !ok {
		return Ref{}, false
	}
	if _, err := hex.Decode(r.Digest[:], []byte(digest)); err != nil {
		return Ref{}, false
	}
	var err error
	r.Size, err = strconv.ParseInt(size, 10, 64)
	return r, err == nil && r.Size >= 0
}

// refOf returns the reference of a part, if it has one.
func refOf(p a2a.Part) (a2a.FilePart, Ref, bool) {
	if file, ok := p.(a2a.FilePart); ok {
		r, ok := Of(file.File)
		return file, r, ok
	}
	return a2a.FilePart{}, Ref{}, false
}

// Holder returns the holder of the blobs that a task keeps.
func Holder(taskID string) string { return "task/" + taskID }

// Refs appends the blobs that parts refer to, each once.
func Refs(dst []string, parts []a2a.Part) []string {
	for _, p := range parts {
		if _, r, ok := refOf(p); ok && !slices.Contains(dst, r.Blob) {
			dst = append(dst, r.Blob)
		}
	}
	return dst
}

// Size returns the total size in bytes of the files that parts refer to. Sizes that are not plausible
// count as 1 TiB.
func Size(parts []a2a.Part) (total int64) {
	for _, p := range parts {
		if _, r, ok := refOf(p); ok {
			total += min(r.Size, 1<<40)
		}
	}
	return total
}

// Contains reports whether parts have a reference.
func Contains(parts []a2a.Part) bool {
	return slices.ContainsFunc(parts, func(p a2a.Part) bool {
		_, _, ok := refOf(p)
		return ok
	})
}

// CheckReceived returns an error if a part of a client has a URI of the reserved scheme.
func CheckReceived(field string, parts []a2a.Part) error {
	for i, p := range parts {
		file, ok := p.(a2a.FilePart)
		if !ok {
			continue
		}
		uri, ok := file.File.(a2a.FileWithURI)
		if ok && reserved(uri.URI) {
			return a2a.Invalid(fmt.Sprintf("%s[%d].file.uri", field, i), "has the reserved scheme %s", scheme)
		}
	}
	return nil
}

func reserved(uri string) bool {
	uri = strings.TrimSpace(uri)
	return len(uri) >= len(scheme) && strings.EqualFold(uri[:len(scheme)], scheme)
}

// large returns the part if its content is to become a blob.
func large(p a2a.Part) (a2a.FilePart, a2a.FileWithBytes, bool) {
	file, ok := p.(a2a.FilePart)
	if !ok {
		return file, a2a.FileWithBytes{}, false
	}
	content, ok := file.File.(a2a.FileWithBytes)
	return file, content, ok && len(content.Bytes) > Threshold
}

// HasLarge reports whether the content of a part is to become a blob.
func HasLarge(parts []a2a.Part) bool {
	return slices.ContainsFunc(parts, func(p a2a.Part) bool {
		_, _, ok := large(p)
		return ok
	})
}

// Canonical returns parts in a form that is the same for equal content, whatever blob has it.
func Canonical(parts []a2a.Part) []a2a.Part {
	if !HasLarge(parts) && !Contains(parts) {
		return parts
	}
	out := slices.Clone(parts)
	for i, p := range parts {
		if file, content, ok := large(p); ok {
			r := Ref{Size: int64(len(content.Bytes)), Digest: sha256.Sum256(content.Bytes)}
			out[i] = r.part(file, content.Name, content.MimeType, content.Embeddings)
		} else if file, r, ok := refOf(p); ok {
			r.Blob = ""
			uri := file.File.(a2a.FileWithURI)
			out[i] = r.part(file, uri.Name, uri.MimeType, uri.Embeddings)
		}
	}
	return out
}

// part returns a file part with r instead of its content.
func (r Ref) part(p a2a.FilePart, name, mimeType string, embeddings []float64) a2a.FilePart {
	p.File = a2a.FileWithURI{Name: name, MimeType: mimeType, URI: r.uri(), Embeddings: embeddings}
	return p
}
