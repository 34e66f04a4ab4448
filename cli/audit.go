package cli

import (
	"context"
	"time"

	"github.com/holdfast-dev/holdfast/auth"
	"github.com/holdfast-dev/holdfast/cli/command"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
)

// auditCmd reads the audit log.
type auditCmd struct {
	List auditListCmd `cmd:"" help:"List who acted for other owners, the oldest first. With --json, one entry per line."`
}

type auditListCmd struct {
	Principal string    `placeholder:"PRINCIPAL" group:"Filter:" help:"Only acts of this principal, or for it."`
	Since     timestamp `placeholder:"TIME" group:"Filter:" help:"Only entries since this time: 2h (ago) or 2026-01-31T12:00:00Z."`

	keptStorage
}

// auditPage is the number of entries that are read at once.
const auditPage = 500

// Run lists entries.
func (c *auditListCmd) Run(ctx context.Context, a *app) error {
	t := command.NewTable(&a.Console, "audit", "TIME:20", "PRINCIPAL:20", "OPERATION:20", "TARGET:20", "OUTCOME:8", "REQUEST")
	return c.openMain(ctx, a, false, func(_ *storage, main store.Store) error {
		for after := ""; ; {
			page, err := auth.ListAudit(ctx, main, after, auditPage)
			if err != nil {
				return err
			}
			for i := range page.Entries {
				if err := c.show(a, t, &page.Entries[i]); err != nil {
					return err
				}
			}
			if after = page.Next; after == "" {
				break
			}
		}
		if t.Rows == 0 {
			a.Info("no entries")
		}
		return nil
	})
}

// show prints an entry that the filters select.
func (c *auditListCmd) show(a *app, t *command.Table, e *auth.AuditEntry) error {
	if c.Principal != "" && e.Principal != c.Principal && e.Target != c.Principal || e.Time.Before(time.Time(c.Since)) {
		return nil
	}
	if a.JSON {
		raw, err := wire.Marshal(e)
		if err != nil {
			return err
		}
		a.Out.JSON(raw)
	}
	t.Row(e.Time.UTC().Format(time.RFC3339), e.Principal, e.Operation, e.Target, e.Outcome, e.Request)
	return nil
}
