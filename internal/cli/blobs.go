package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/fileref"
	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/blob/blobs"
)

// blobsCmd has the commands for blobs.
type blobsCmd struct {
	List   blobsListCmd   `cmd:"" help:"List blobs, oldest first."`
	Show   blobsShowCmd   `cmd:"" help:"Show the description of a blob."`
	Get    blobsGetCmd    `cmd:"" help:"Write the content of a blob to stdout or a file."`
	Put    blobsPutCmd    `cmd:"" help:"Store a file as a blob and print its ref."`
	Delete blobsDeleteCmd `cmd:"" help:"Delete blobs."`

	RotateLinks blobsRotateLinksCmd `cmd:"" help:"Make a new secret that signs links to files."`
}

// blobView is a blob in the JSON output.
type blobView struct {
	Ref         string     `json:"ref"`
	Size        int64      `json:"size"`
	SHA256      string     `json:"sha256"`
	ContentType string     `json:"contentType"`
	Name        string     `json:"name,omitempty"`
	CreatedAt   time.Time  `json:"createdAt"`
	ExpiresAt   *time.Time `json:"expiresAt,omitempty"`
	TTL         string     `json:"ttl"`
	Holders     []string   `json:"holders,omitempty"`
}

func viewBlob(b *blob.Info) blobView {
	return blobView{b.Ref, b.Size, b.Digest.String(), b.ContentType, b.Name, b.Created.UTC(), timeJSON(b.Expires), b.TTL.String(), b.Holders}
}

type blobsListCmd struct {
	pageFlags `group:"Pages:" set:"items=Blobs" set:"item=blob" set:"but="`
	keptFlags
}

// Run lists blobs.
func (c *blobsListCmd) Run(ctx context.Context, a *app) error {
	t := &table{a: a, what: "blobs", member: "blobs", columns: []column{{"REF", 36}, {"SIZE", -8}, {"CREATED", -7}, {"EXPIRES", -7}, {"TYPE", 24}, {"NAME", 0}}}
	t.fit()
	return c.pages(ctx, t, &c.pageFlags, func(k *kept, token string) (items []any, next string, err error) {
		page, err := blobs.In(k.Stores).List(ctx, blob.ListParams{Owner: k.owner, After: token, Limit: c.Limit})
		for i := range page.Blobs {
			b := &page.Blobs[i]
			expires := until(b.Expires)
			if len(b.Holders) > 0 {
				expires = "pinned"
			}
			t.row(b.Ref, humanize.IBytes(uint64(b.Size)), age(b.Created), expires, b.ContentType, b.Name) // not negative
			items = append(items, viewBlob(b))
			if page.More {
				next = b.Ref
			}
		}
		return items, next, err
	})
}

type blobsShowCmd struct {
	Ref string `arg:"" help:"Ref of the blob."`

	keptFlags
}

// Run shows a blob.
func (c *blobsShowCmd) Run(ctx context.Context, a *app) error {
	return c.with(ctx, a, false, func(k *kept) error {
		b, err := blobs.In(k.Stores).Stat(ctx, k.owner, c.Ref)
		if err != nil {
			return k.blobError(c.Ref, err)
		}
		if a.json {
			return a.writeResult(viewBlob(&b))
		}
		a.out.line("%s", a.out.bold("blob "+b.Ref))
		a.out.row("name", b.Name)
		a.out.row("type", b.ContentType)
		a.out.row("size", fmt.Sprintf("%s (%d bytes)", humanize.IBytes(uint64(b.Size)), b.Size)) // not negative
		a.out.row("sha256", b.Digest.String())
		a.out.row("created", timeText(b.Created))
		a.out.row("expires", timeText(b.Expires))
		a.out.row("pinned by", strings.Join(b.Holders, ", "))
		return nil
	})
}

// blobError adds the ref to the error of a blob that does not exist.
func (k *kept) blobError(ref string, err error) error {
	if errors.Is(err, blob.ErrNotFound) {
		return k.notFound("blob", ref)
	}
	return err
}

type blobsGetCmd struct {
	Ref    string `arg:"" help:"Ref of the blob."`
	Output string `short:"o" placeholder:"FILE" help:"Write to this file instead of stdout. Only you can read it. An existing file is replaced after the content is complete."`

	keptFlags
}

// Run writes the content of a blob.
func (c *blobsGetCmd) Run(ctx context.Context, a *app) error {
	toFile := c.Output != "" && c.Output != "-"
	if a.json && !toFile {
		return usagef("--output is required with --json: stdout has the result")
	}
	return c.with(ctx, a, false, func(k *kept) error {
		r, info, err := blobs.In(k.Stores).Open(ctx, k.owner, c.Ref)
		if err != nil {
			return k.blobError(c.Ref, err)
		}
		defer func() { _ = r.Close() }()
		content := fileref.NewVerifier(r, info)
		if !toFile {
			_, err := io.Copy(a.out.w, content)
			return err
		}
		err = replaceFile(c.Output, func(w io.Writer) error {
			_, err := io.Copy(w, content)
			return err
		})
		if err != nil {
			return err
		}
		if a.json {
			return a.writeResult(viewBlob(&info))
		}
		a.info("wrote %d bytes to %s", info.Size, c.Output)
		return nil
	})
}

type blobsPutCmd struct {
	File string        `arg:"" help:"File to store; - is stdin."`
	Type string        `placeholder:"TYPE" help:"Media type of the content (default that of the file's name, else application/octet-stream)."`
	Name string        `help:"Name for people (default the name of the file)."`
	TTL  time.Duration `name:"ttl" help:"Time after which the blob expires (default 24h)."`
	Pin  string        `placeholder:"HOLDER" help:"Pin the blob for this holder: it does not expire."`

	keptFlags
}

// Run stores a blob.
func (c *blobsPutCmd) Run(ctx context.Context, a *app) error {
	p := blob.PutParams{ContentType: c.Type, Name: c.Name, TTL: c.TTL, Holder: c.Pin}
	in := nonNilReader(a.stdin)
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		in = f
		if p.Name == "" {
			p.Name = filepath.Base(c.File)
		}
		if p.ContentType == "" {
			head := bufio.NewReader(f)
			start, _ := head.Peek(512) // Put reports the error
			p.ContentType, in = mediaType(c.File, start), head
		}
	}
	return c.with(ctx, a, true, func(k *kept) error {
		p.Owner = k.owner
		info, err := blobs.In(k.Stores).Put(ctx, in, p)
		if err != nil {
			return err
		}
		if a.json {
			return a.writeResult(viewBlob(&info))
		}
		a.out.line("%s", info.Ref)
		return nil
	})
}

type blobsDeleteCmd struct {
	Refs  []string `arg:"" name:"ref" help:"Refs of the blobs."`
	Force bool     `help:"Also delete blobs that are pinned, such as files of tasks: these then have no content."`
	confirmFlag

	keptFlags
}

// Run deletes blobs. It continues after errors.
func (c *blobsDeleteCmd) Run(ctx context.Context, a *app) error {
	if err := c.check(a); err != nil {
		return err
	}
	return c.with(ctx, a, true, func(k *kept) error {
		describe := func(ref string) (string, error) {
			b, err := blobs.In(k.Stores).Stat(ctx, k.owner, ref)
			if err != nil {
				return "", k.blobError(ref, err)
			}
			return fmt.Sprintf("blob %s (%s, %d bytes)", b.Ref, oneLine(b.Name, 40), b.Size), nil
		}
		return c.delete(ctx, a, c.Refs, describe, func(ref string) error {
			switch b, err := blobs.In(k.Stores).Stat(ctx, k.owner, ref); {
			case err != nil:
				return k.blobError(ref, err)
			case len(b.Holders) > 0 && !c.Force:
				return a2a.Errorf(a2a.CodeConflict, "blob %s is pinned by %s; --force deletes it nevertheless", a2a.Quote(ref), strings.Join(b.Holders, ", "))
			}
			if err := blobs.In(k.Stores).Delete(ctx, k.owner, ref); err != nil {
				return k.blobError(ref, err)
			}
			return a.done(map[string]any{"ref": ref}, "deleted "+ref)
		})
	})
}

// done prints the result of a change: as JSON with --json, else as text.
func (a *app) done(result map[string]any, text string) error {
	if a.json {
		return a.writeResult(result)
	}
	a.out.line("%s", clean(text))
	return nil
}

type blobsRotateLinksCmd struct {
	Revoke bool `help:"Make all links invalid that exist. By default, they stay valid for their time, until the fourth rotation."`

	keptStorage
}

// Run rotates the secret of links.
func (c *blobsRotateLinksCmd) Run(ctx context.Context, a *app) error {
	return c.openKept(ctx, a, "", true, func(k *kept) error {
		if err := fileref.RotateSecret(ctx, k.store, c.Revoke); err != nil {
			return err
		}
		text := "Replicas sign links with a new secret within a minute. Links that exist stay valid."
		if c.Revoke {
			text = "Replicas reject all links that exist within a minute."
		}
		return a.done(map[string]any{"rotated": true, "revoked": c.Revoke}, text)
	})
}
