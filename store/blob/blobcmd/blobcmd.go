// Package blobcmd has the command holdfast blobs.
package blobcmd

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/cli/command"
	"github.com/holdfast-dev/holdfast/internal/fileref"
	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/blob/blobs"
)

//go:embed help.txt
var help string

// Command is the command of the contract.
var Command = command.Command{Name: "blobs", Help: "List, read, store and delete blobs of an owner, in the store.", Details: help, New: func() any { return new(blobsCmd) }}

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
	return blobView{b.Ref, b.Size, b.Digest.String(), b.ContentType, b.Name, b.Created.UTC(), command.TimeJSON(b.Expires), b.TTL.String(), b.Holders}
}

type blobsListCmd struct {
	command.PageFlags `group:"Pages:" set:"items=Blobs" set:"item=blob" set:"but="`
	command.DataFlags
}

// Run lists blobs.
func (c *blobsListCmd) Run(ctx context.Context, a *command.Console) error {
	t := command.NewTable(a, "blobs", "REF:36", "SIZE:-8", "CREATED:-7", "EXPIRES:-7", "TYPE:24", "NAME")
	t.Fit()
	return c.Pages(ctx, t, &c.PageFlags, func(k *command.Data, token string) (items []any, next string, err error) {
		page, err := blobs.In(k.Stores).List(ctx, blob.ListParams{Owner: k.Owner, After: token, Limit: c.Limit})
		for i := range page.Blobs {
			b := &page.Blobs[i]
			expires := command.Until(b.Expires)
			if len(b.Holders) > 0 {
				expires = "pinned"
			}
			t.Row(b.Ref, humanize.IBytes(uint64(b.Size)), command.Age(b.Created), expires, b.ContentType, b.Name) // not negative
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

	command.DataFlags
}

// Run shows a blob.
func (c *blobsShowCmd) Run(ctx context.Context, a *command.Console) error {
	return c.With(ctx, false, func(k *command.Data) error {
		b, err := blobs.In(k.Stores).Stat(ctx, k.Owner, c.Ref)
		if err != nil {
			return blobError(k, c.Ref, err)
		}
		if a.JSON {
			return a.WriteResult(viewBlob(&b))
		}
		a.Out.Line("%s", a.Out.Bold("blob "+b.Ref))
		a.Out.Row("name", b.Name)
		a.Out.Row("type", b.ContentType)
		a.Out.Row("size", fmt.Sprintf("%s (%d bytes)", humanize.IBytes(uint64(b.Size)), b.Size)) // not negative
		a.Out.Row("sha256", b.Digest.String())
		a.Out.Row("created", command.TimeText(b.Created))
		a.Out.Row("expires", command.TimeText(b.Expires))
		a.Out.Row("pinned by", strings.Join(b.Holders, ", "))
		return nil
	})
}

// blobError adds the ref to the error of a blob that does not exist.
func blobError(k *command.Data, ref string, err error) error {
	if errors.Is(err, blob.ErrNotFound) {
		return k.NotFound("blob", ref)
	}
	return err
}

type blobsGetCmd struct {
	Ref    string `arg:"" help:"Ref of the blob."`
	Output string `short:"o" placeholder:"FILE" help:"Write to this file instead of stdout. Only you can read it. An existing file is replaced after the content is complete."`

	command.DataFlags
}

// Run writes the content of a blob.
func (c *blobsGetCmd) Run(ctx context.Context, a *command.Console) error {
	toFile := c.Output != "" && c.Output != "-"
	if a.JSON && !toFile {
		return command.Usagef("--output is required with --json: stdout has the result")
	}
	return c.With(ctx, false, func(k *command.Data) error {
		r, info, err := blobs.In(k.Stores).Open(ctx, k.Owner, c.Ref)
		if err != nil {
			return blobError(k, c.Ref, err)
		}
		defer func() { _ = r.Close() }()
		content := fileref.NewVerifier(r, info)
		if !toFile {
			_, err := io.Copy(a.Out.W, content)
			return err
		}
		err = command.ReplaceFile(c.Output, func(w io.Writer) error {
			_, err := io.Copy(w, content)
			return err
		})
		if err != nil {
			return err
		}
		if a.JSON {
			return a.WriteResult(viewBlob(&info))
		}
		a.Info("wrote %d bytes to %s", info.Size, c.Output)
		return nil
	})
}

type blobsPutCmd struct {
	File string        `arg:"" help:"File to store; - is stdin."`
	Type string        `placeholder:"TYPE" help:"Media type of the content (default by the file's name, else application/octet-stream)."`
	Name string        `help:"Name for people (default the name of the file)."`
	TTL  time.Duration `name:"ttl" help:"Time after which the blob expires (default 24h)."`
	Pin  string        `placeholder:"HOLDER" help:"Pin the blob for this holder: it does not expire."`

	command.DataFlags
}

// Run stores a blob.
func (c *blobsPutCmd) Run(ctx context.Context, a *command.Console) error {
	p := blob.PutParams{ContentType: c.Type, Name: c.Name, TTL: c.TTL, Holder: c.Pin}
	in := command.NonNilReader(a.Stdin)
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
			p.ContentType, in = command.MediaType(c.File, start), head
		}
	}
	return c.With(ctx, true, func(k *command.Data) error {
		p.Owner = k.Owner
		info, err := blobs.In(k.Stores).Put(ctx, in, p)
		if err != nil {
			return err
		}
		if a.JSON {
			return a.WriteResult(viewBlob(&info))
		}
		a.Out.Line("%s", info.Ref)
		return nil
	})
}

type blobsDeleteCmd struct {
	Refs  []string `arg:"" name:"ref" help:"Refs of the blobs."`
	Force bool     `help:"Also delete blobs that are pinned, such as files of tasks: these then have no content."`
	command.ConfirmFlag

	command.DataFlags
}

// Run deletes blobs. It continues after errors.
func (c *blobsDeleteCmd) Run(ctx context.Context, a *command.Console) error {
	if err := c.Check(a); err != nil {
		return err
	}
	return c.With(ctx, true, func(k *command.Data) error {
		describe := func(ref string) (string, error) {
			b, err := blobs.In(k.Stores).Stat(ctx, k.Owner, ref)
			if err != nil {
				return "", blobError(k, ref, err)
			}
			return fmt.Sprintf("blob %s (%s, %d bytes)", b.Ref, command.OneLine(b.Name, 40), b.Size), nil
		}
		return c.Delete(ctx, a, c.Refs, describe, func(ref string) error {
			switch b, err := blobs.In(k.Stores).Stat(ctx, k.Owner, ref); {
			case err != nil:
				return blobError(k, ref, err)
			case len(b.Holders) > 0 && !c.Force:
				return a2a.Errorf(a2a.CodeConflict, "blob %s is pinned by %s; --force deletes it nevertheless", a2a.Quote(ref), strings.Join(b.Holders, ", "))
			}
			if err := blobs.In(k.Stores).Delete(ctx, k.Owner, ref); err != nil {
				return blobError(k, ref, err)
			}
			return a.Done(map[string]any{"ref": ref}, "deleted "+ref)
		})
	})
}

type blobsRotateLinksCmd struct {
	Revoke bool `help:"Make all links invalid that exist. By default, they stay valid for their time, until the fourth rotation."`

	command.Stores
}

// Run rotates the secret of links.
func (c *blobsRotateLinksCmd) Run(ctx context.Context, a *command.Console) error {
	return c.Open(ctx, "", true, func(k *command.Data) error {
		if err := fileref.RotateSecret(ctx, k.Tasks, c.Revoke); err != nil {
			return err
		}
		text := "Replicas sign links with a new secret within a minute. Links that exist stay valid."
		if c.Revoke {
			text = "Replicas reject all links that exist within a minute."
		}
		return a.Done(map[string]any{"rotated": true, "revoked": c.Revoke}, text)
	})
}
