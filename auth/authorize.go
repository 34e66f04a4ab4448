package auth

import (
	"context"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/rpc"
)

// Authorize returns the error that rejects a call, or nil. It checks, in this order, the rate, the scope, the operator
// who acts for another owner, the proof of identity that the agent requires, the trust level, and the permission.
func (a *Auth) Authorize(ctx context.Context, c *rpc.Call) error {
	caller := c.Principal
	if err := a.limit(c, &caller); err != nil {
		return err
	}
	err := a.decide(c)
	switch {
	case err != nil:
		a.auditDenial(ctx, c, &caller, err)
	case c.Owner != "":
		err = a.auditAct(ctx, c, &caller)
	}
	return err
}

func (a *Auth) decide(c *rpc.Call) error {
	m, p := c.Method, c.Principal
	if !p.May(m.Scope) {
		return deny(c, "scope", "the scope "+string(m.Scope), m.Scope, p.Scopes)
	}
	roles := a.roles.Load()
	if roles == nil {
		if c.Owner != "" {
			return deny(c, "owner", "an operator when it names another owner, and this agent has no roles", a2a.TrustOperator, nil)
		}
		return nil
	}
	if c.Owner != "" {
		if err := actFor(c); err != nil {
			return err
		}
	}
	if roles.trust.TrustVerificationRequired && p.Proof == "" && !startsTask(m) {
		return deny(c, "trust", "a proof of identity: the signature of a DID", "proof", "none")
	}
	need, none := roles.required(&p, m)
	switch {
	case none:
		return deny(c, "trust", "a place in the agent's allowedOperations", "allowedOperations", p.Level)
	case !p.Level.AtLeast(need):
		return deny(c, "trust", "the trust level "+string(need), need, p.Level)
	case need != a2a.TrustGuest && !p.MayUse(m.Permission): // guests have no role, and so no permissions
		return deny(c, "permission", "the permission "+m.Permission, m.Permission, p.Permissions)
	}
	return nil
}

// startsTask reports whether a method sends a message, which Admit decides about.
func startsTask(m *a2a.Method) bool { return m.Name == a2a.MethodSend || m.Name == a2a.MethodStream }

// actFor makes the call one of the owner that it names, if the caller is an operator, or an auditor and the call a read.
// Analysts and editors, who rank above auditors, may not: they are the usual callers of an agent, and owners are isolated
// from each other.
func actFor(c *rpc.Call) error {
	need, p := a2a.TrustOperator, c.Principal
	if c.Method.Scope == a2a.ScopeRead {
		need = a2a.TrustAuditor
	}
	if !p.Level.AtLeast(a2a.TrustOperator) && p.Level != need {
		return deny(c, "owner", "the trust level "+string(need)+" when it names another owner", need, p.Level)
	}
	p.Actor, p.ID = p.ID, c.Owner
	if err := p.Check(); err != nil {
		return err
	}
	c.Principal = p
	return nil
}

// deny returns the rejection of a call: it names the operation, the requirement, as a text too, and the caller's value.
func deny(c *rpc.Call, reason, text string, required, actual any) error {
	e := a2a.Refusef(a2a.CodeDenied, reason, "%s requires %s", c.Operation(), text)
	e.Data["operation"], e.Data["required"], e.Data["actual"] = c.Method.Name, required, actual
	return e
}
