package auth

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/rpc"
	"github.com/holdfast-dev/holdfast/store"
)

// AuditEntry says who did something that matters for security, or was prevented from it. It has neither content nor
// credentials.
type AuditEntry struct {
	Time time.Time `json:"time" wire:"required"`
	// Principal is who acted: the operator, if one acted for another owner. It is "" if nobody was authenticated.
	Principal string `json:"principal,omitempty"`
	// Credential is the security scheme and the hash of the credential.
	Credential string `json:"credential,omitempty"`
	// Operation is the name of the method, or of the command.
	Operation string `json:"operation,omitempty"`
	// Target is the owner, the key or the role that the act concerns.
	Target string `json:"target,omitempty"`
	// Outcome is "allowed", "denied" or "failed".
	Outcome string `json:"outcome" wire:"required"`
	// Reason is why the outcome is not "allowed".
	Reason string `json:"reason,omitempty"`
	// Request identifies the request in logs.
	Request string `json:"request,omitempty"`
	// Address is the address of the client, in entries of failed authentication.
	Address string `json:"address,omitempty"`
}

const (
	auditNamespace = "audit"
	// auditFor is how long the store keeps an entry.
	auditFor = 365 * 24 * time.Hour
)

// Record stores an entry. Its error means that the act must not happen.
func (e *AuditEntry) Record(ctx context.Context, records store.Records) error {
	value, err := wire.Marshal(e)
	if err != nil {
		return err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return err
	}
	return records.SaveRecords(ctx, store.System, store.RecordChange{Namespace: auditNamespace, Key: id.String(), Value: value, Expires: e.Time.Add(auditFor)})
}

// AuditPage is a page of entries of the audit log, the oldest first.
type AuditPage struct {
	Entries []AuditEntry
	// Next continues after the page; it is "" at the end.
	Next string
}

// ListAudit reads a page of at most limit entries after a position, which is "" or the Next of a page.
func ListAudit(ctx context.Context, records store.Records, after string, limit int) (page AuditPage, err error) {
	found, err := records.Records(ctx, store.RecordQuery{Owner: store.System, Namespace: auditNamespace, After: store.RecordKey{Namespace: auditNamespace, Key: after}, Limit: limit})
	if err != nil {
		return page, err
	}
	for _, r := range found.Records {
		var e AuditEntry
		if err := wire.Unmarshal(r.Value, &e); err != nil {
			return page, fmt.Errorf("audit entry %s: %w", r.Key.Key, err)
		}
		page.Entries = append(page.Entries, e)
		if found.More {
			page.Next = r.Key.Key
		}
	}
	return page, nil
}

// log writes an entry to the log.
func (e *AuditEntry) log(ctx context.Context, log *slog.Logger) {
	attrs := make([]slog.Attr, 0, 8)
	for _, a := range [][2]string{
		{"principal", e.Principal},
		{"credential", e.Credential},
		{"operation", e.Operation},
		{"target", e.Target},
		{"outcome", e.Outcome},
		{"reason", e.Reason},
		{"request", e.Request},
		{"address", e.Address},
	} {
		if a[1] != "" {
			attrs = append(attrs, slog.String(a[0], a[1]))
		}
	}
	level := slog.LevelWarn
	if e.Outcome == "allowed" {
		level = slog.LevelInfo
	}
	log.LogAttrs(ctx, level, "audit", attrs...)
}

// auditFailure logs a request that failed to authenticate.
func (a *Auth) auditFailure(r *http.Request, err error) {
	e := AuditEntry{Operation: r.Method + " " + r.URL.Path, Outcome: "failed", Reason: reasonOf(err), Address: address(r)}
	e.log(r.Context(), a.cfg.Logger)
}

// auditDenial logs a call that is denied, at most one per second and principal.
func (a *Auth) auditDenial(ctx context.Context, c *rpc.Call, caller *a2a.Principal, err error) {
	if a.denials.allow(caller.ID, Rate{PerSecond: 1, Burst: 10}, a.cfg.Now()) > 0 {
		return
	}
	e := AuditEntry{Principal: caller.ID, Credential: caller.Credential, Operation: c.Method.Name, Target: c.Owner, Outcome: "denied", Reason: reasonOf(err), Request: c.RequestID}
	e.log(ctx, a.cfg.Logger)
}

// auditAct records that an operator acts for another owner. Without the record, the operator must not act.
func (a *Auth) auditAct(ctx context.Context, c *rpc.Call, operator *a2a.Principal) error {
	e := AuditEntry{
		Time: a.cfg.Now().UTC(), Principal: operator.ID, Credential: operator.Credential, Operation: c.Method.Name, Target: c.Owner, Outcome: "allowed", Request: c.RequestID,
	}
	e.log(ctx, a.cfg.Logger)
	return e.Record(ctx, a.cfg.Records)
}
