package auth

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
)

// Roles are the roles of a deployment and the requirements of the agent. It is not changed after [ParseRoles].
//
// A principal has the roles that its credential names: by roleName, or by the name in externalMappings for the identity
// provider of its issuer. Its level is the highest trustLevel of its roles, guest without a role. Its permissions are
// its roles' permissions; a role without permissions permits everything that its level may do.
type Roles struct {
	// roles are all roles. The inherited roles, which the agent's creator always has, start at inherited.
	roles     []a2a.KeycloakRole
	inherited int
	trust     a2a.AgentTrust
	// members are the names of the roles of principals, besides the roles that their credentials name, by their ids.
	members map[string][]string
	// providers maps the names of issuers to their identity providers.
	providers map[string]a2a.IdentityProvider
}

// rolesFile is the content of a roles file.
type rolesFile struct {
	Roles []a2a.KeycloakRole `json:"roles" wire:"required"`
	Trust *a2a.AgentTrust    `json:"trust,omitempty"`
	// Members maps ids of principals to the names of their roles.
	Members map[string][]string `json:"members,omitempty"`
}

// ParseRoles reads a roles file: a JSON object with the member roles, a list of KeycloakRole objects, and two members
// that may be absent: trust, an AgentTrust object, and members, which maps ids of principals to names of roles, for
// principals with credentials that name no roles. providers has the identity providers of issuers by their names.
func ParseRoles(text []byte, providers map[string]a2a.IdentityProvider) (*Roles, error) {
	var file rolesFile
	err := wire.UnmarshalStrict(text, &file)
	if err == nil { // a member with a wrong name must not be without effect
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		err = d.Decode(new(rolesFile))
	}
	if err != nil {
		return nil, fmt.Errorf("roles: %w", err)
	}
	r := &Roles{roles: file.Roles, inherited: len(file.Roles), members: file.Members, providers: providers}
	if file.Trust != nil {
		if err := file.Trust.Validate(); err != nil {
			return nil, fmt.Errorf("roles: trust: %w", err)
		}
		r.trust = *file.Trust
		r.roles = slices.Concat(r.roles, r.trust.InheritedRoles)
	}
	names := make(map[string]bool)
	for _, role := range r.roles {
		if names[role.Name] {
			return nil, fmt.Errorf("roles: two roles have the name %s", a2a.Quote(role.Name))
		}
		names[role.Name] = true
		if err := role.Validate(); err != nil {
			return nil, fmt.Errorf("roles: role %s: %w", a2a.Quote(role.Name), err)
		}
		if err := checkLevels(role.OperationPermissions); err != nil {
			return nil, fmt.Errorf("roles: operationPermissions of role %s: %w", a2a.Quote(role.Name), err)
		}
	}
	for id, roles := range r.members {
		for _, name := range roles {
			if !names[name] {
				return nil, fmt.Errorf("roles: member %s has the role %s, which does not exist", a2a.Quote(id), a2a.Quote(name))
			}
		}
	}
	if err := checkLevels(r.trust.AllowedOperations); err != nil {
		return nil, fmt.Errorf("roles: allowedOperations: %w", err)
	}
	return r, nil
}

// checkLevels returns an error if an operation is not known.
func checkLevels(operations map[string]a2a.TrustLevel) error {
	for name := range operations {
		if _, known := a2a.MethodByName(name); !known {
			return fmt.Errorf("there is no operation %s", a2a.Quote(name))
		}
	}
	return nil
}

// Trust returns the agent's requirements for its callers, for the agent card; nil if the file has none.
func (r *Roles) Trust() *a2a.AgentTrust {
	if r.trust.IdentityProvider == "" {
		return nil
	}
	trust := r.trust
	return &trust
}

// has returns the roles of a principal.
func (r *Roles) has(p *a2a.Principal) (roles []*a2a.KeycloakRole) {
	provider := string(r.providers[p.Issuer])
	creator := r.trust.CreatorID.String() == p.ID
	for i := range r.roles {
		role := &r.roles[i]
		name, mapped := role.ExternalMappings[provider]
		if !mapped {
			name = role.Name
		}
		if creator && i >= r.inherited || slices.Contains(p.Roles, name) || slices.Contains(r.members[p.ID], role.Name) {
			roles = append(roles, role)
		}
	}
	return roles
}

// grant sets the level, the permissions and the roles of a principal.
func (r *Roles) grant(p *a2a.Principal) {
	p.Level, p.Permissions = a2a.TrustGuest, []string{}
	var names []string
	everything := false
	for _, role := range r.has(p) {
		names = append(names, role.Name)
		if role.TrustLevel.Rank() > p.Level.Rank() {
			p.Level = role.TrustLevel
		}
		p.Permissions = append(p.Permissions, role.Permissions...)
		everything = everything || len(role.Permissions) == 0
	}
	if p.Roles = names; everything {
		p.Permissions = nil
	}
}

// required returns the minimum level for an operation. denied reports that no level is enough.
func (r *Roles) required(p *a2a.Principal, m *a2a.Method) (need a2a.TrustLevel, denied bool) {
	level, listed := r.trust.AllowedOperations[m.Name]
	if len(r.trust.AllowedOperations) > 0 && !listed && isMethod(m) {
		return "", true
	}
	need = level
	for i := range r.roles {
		if l, ok := r.roles[i].OperationPermissions[m.Name]; ok && slices.Contains(p.Roles, r.roles[i].Name) && l.Rank() > need.Rank() {
			need = l
		}
	}
	if need == "" {
		need = m.Level
	}
	return need, false
}

// isMethod reports whether an operation is a method of the protocol, which allowedOperations can name.
func isMethod(m *a2a.Method) bool {
	_, ok := a2a.MethodByName(m.Name)
	return ok
}
