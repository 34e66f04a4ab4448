package auth

import (
	"context"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/engine"
)

// MetadataSkill is the member of a message's metadata that names the skill which the message asks for.
const MetadataSkill = "skillId"

// Admit decides about a message that its sender may send, for [engine.Turns]: a message that names a skill needs what the
// skill requires, and the task of a sender without proof of identity waits for it if the agent requires trust
// verification. skills are the skills of the agent.
func (a *Auth) Admit(skills []a2a.AgentSkill) func(context.Context, engine.AdmitParams) (engine.Admission, error) {
	return func(_ context.Context, p engine.AdmitParams) (adm engine.Admission, err error) {
		if err := a.checkSkill(&p, skills); err != nil {
			return adm, err
		}
		if roles := a.roles.Load(); roles != nil && roles.trust.TrustVerificationRequired && p.Principal.Proof == "" {
			adm.Pause = a2a.StateTrustVerificationRequired
			adm.Explanation = []a2a.Part{a2a.TextPart{Text: "Prove your identity: send the next message with the signature of your DID or with your client certificate."}}
		}
		return adm, nil
	}
}

// checkSkill returns an error if the message names a skill that does not exist or that its sender may not use.
func (a *Auth) checkSkill(p *engine.AdmitParams, skills []a2a.AgentSkill) error {
	value, named := p.Message.Metadata[MetadataSkill]
	if !named {
		return nil
	}
	id, ok := value.(string)
	if !ok {
		return a2a.Invalid("message.metadata."+MetadataSkill, "must be the id of a skill")
	}
	i := slices.IndexFunc(skills, func(s a2a.AgentSkill) bool { return s.ID == id })
	if i < 0 {
		return a2a.Errorf(a2a.CodeSkillNotFound, "skill %s not found", a2a.Quote(id))
	}
	if MayUse(&p.Principal, &skills[i]) {
		return nil
	}
	e := a2a.Errorf(a2a.CodeDenied, "the skill %s requires other credentials: %s", a2a.Quote(id), describe(skills[i].Security))
	e.Data = map[string]any{"reason": "skill", "operation": id, "required": skills[i].Security, "actual": p.Principal.Schemes}
	return e
}

// MayUse reports whether a principal meets a requirement of a skill: it has satisfied the security schemes, and has the
// scopes. Scopes count for the scheme that granted them.
func MayUse(p *a2a.Principal, skill *a2a.AgentSkill) bool {
	meets := func(required map[string][]string) bool {
		for name, scopes := range required {
			at := slices.Index(p.Schemes, name)
			if at < 0 || len(scopes) > 0 && at > 0 || slices.ContainsFunc(scopes, func(s string) bool { return !p.May(a2a.Scope(s)) }) {
				return false
			}
		}
		return true
	}
	return len(skill.Security) == 0 || slices.ContainsFunc(skill.Security, meets)
}

// describe returns requirements as text, such as "a and b (scope x), or c".
func describe(requirements []map[string][]string) string {
	var alternatives []string
	for _, r := range requirements {
		var all []string
		for name, scopes := range r {
			if len(scopes) > 0 {
				name += " (scopes " + strings.Join(scopes, " ") + ")"
			}
			all = append(all, name)
		}
		slices.Sort(all)
		alternatives = append(alternatives, strings.Join(all, " and "))
	}
	return strings.Join(alternatives, ", or ")
}
