package server

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/server/internal/exchange"
)

// The paths below /agent/skills describe the skills of the public card, in snake_case as agents made with Bindu do.

// skillList is the response of GET /agent/skills.
type skillList struct {
	Skills []a2a.AgentSkill `json:"skills"`
	Total  int              `json:"total"`
}

// handleSkills adds the routes of skills.
func (s *Server) handleSkills() {
	const path = "/agent/skills"
	s.routes.Handle(http.MethodGet, path, route{serve: s.serveSkills, public: true})
	s.routes.Handle(http.MethodGet, path+"/{skill}", route{serve: s.serveSkill, public: true, rest: true})
	s.routes.Handle(http.MethodGet, path+"/{skill}/documentation", route{serve: s.serveSkillDocumentation, public: true, rest: true})
}

func (s *Server) serveSkills(x *exchange.Exchange) {
	list := skillList{Skills: []a2a.AgentSkill{}, Total: len(s.card.Skills)}
	for _, skill := range s.card.Skills {
		list.Skills = append(list.Skills, a2a.AgentSkill{
			ID: skill.ID, Name: skill.Name, Description: skill.Description, Version: skill.Version, Tags: skill.Tags, Examples: skill.Examples,
			InputModes: skill.InputModes, OutputModes: skill.OutputModes, DocumentationPath: skill.DocumentationPath,
		})
	}
	body, err := wire.AppendSnake(nil, list)
	s.respondSkill(x, body, err)
}

func (s *Server) serveSkill(x *exchange.Exchange) {
	found := s.skill(x)
	if found == nil {
		return
	}
	skill := *found
	skill.DocumentationContent = ""
	body, err := wire.AppendSnake(nil, skill)
	if err == nil {
		body = fmt.Appendf(body[:len(body)-1], `,"has_documentation":%t}`, found.DocumentationContent != "")
	}
	s.respondSkill(x, body, err)
}

func (s *Server) serveSkillDocumentation(x *exchange.Exchange) {
	skill := s.skill(x)
	switch {
	case skill == nil:
	case skill.DocumentationContent == "":
		s.refuse(x, http.StatusNotFound, a2a.Errorf(a2a.CodeMethodNotFound, "skill %s has no documentation", a2a.Quote(skill.ID)))
	default:
		x.Header().Set("Content-Type", "text/plain; charset=utf-8")
		x.Respond(http.StatusOK, []byte(skill.DocumentationContent))
	}
}

// skill returns the skill that the path names by its id or, if no skill has that id, by its name. It responds and returns nil
// if there is none.
func (s *Server) skill(x *exchange.Exchange) *a2a.AgentSkill {
	name := x.PathValue("skill")
	i := slices.IndexFunc(s.card.Skills, func(k a2a.AgentSkill) bool { return k.ID == name })
	if i < 0 {
		i = slices.IndexFunc(s.card.Skills, func(k a2a.AgentSkill) bool { return strings.EqualFold(k.Name, name) })
	}
	if i < 0 {
		s.refuse(x, http.StatusNotFound, a2a.Errorf(a2a.CodeMethodNotFound, "skill %s not found", a2a.Quote(name)))
		return nil
	}
	return &s.card.Skills[i]
}

func (s *Server) respondSkill(x *exchange.Exchange, body []byte, err error) {
	if err != nil {
		s.refuse(x, http.StatusInternalServerError, err)
		return
	}
	x.Respond(http.StatusOK, append(body, '\n'))
}
