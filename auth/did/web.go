package did

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
)

const webPrefix = "did:web:"

// Web returns the did:web (W3C CCG did:web) of the agent at a public https URL. The document belongs at [WebURL].
func Web(rawURL string) (string, error) {
	u, err := url.Parse(rawURL)
	if err != nil || u.Scheme != "https" || u.User != nil || strings.ContainsAny(rawURL, "?#%[") {
		return "", invalid(ReasonDID, "a did:web needs an https URL without user, query, fragment and escapes")
	}
	did := webPrefix + strings.ToLower(u.Hostname())
	if port := u.Port(); port != "" && port != "443" {
		did += "%3A" + port
	}
	did += strings.ReplaceAll(strings.TrimSuffix(u.Path, "/"), "/", ":")
	_, err = WebURL(did)
	return did, err
}

// WebURL returns the URL of the document of a did:web. The host must be a domain name in lower case. A port follows
// as %3A and its number, path segments of letters, digits and "._-" follow after colons.
func WebURL(did string) (string, error) {
	rest, ok := strings.CutPrefix(did, webPrefix)
	segments := strings.Split(rest, ":")
	host, port, hasPort := strings.Cut(segments[0], "%3A")
	if !ok || len(did) > MaxLength || !isDomain(host) || hasPort && !isPort(port) {
		return "", invalid(ReasonDID, "%s is not a did:web: want a domain name in lower case, and a port as %%3A and a number", a2a.Quote(did))
	}
	for _, segment := range segments[1:] {
		if strings.Trim(segment, ".") == "" || !of(segment, letters+digits+"._-") {
			return "", invalid(ReasonDID, "%s is not a did:web: want path segments of letters, digits and ._-", a2a.Quote(did))
		}
	}
	address := "https://" + host
	if hasPort {
		address += ":" + port
	}
	if len(segments) == 1 {
		return address + "/.well-known/did.json", nil
	}
	return address + "/" + strings.Join(segments[1:], "/") + "/did.json", nil
}

// isDomain reports whether a host is a domain name in lower case, and not an IP address.
func isDomain(host string) bool {
	labels := strings.Split(host, ".")
	for _, label := range labels {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' || !of(label, lower+digits+"-") {
			return false
		}
	}
	return len(host) <= 253 && strings.ContainsAny(labels[len(labels)-1][:1], lower)
}

func isPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && n > 0 && text[0] != '0'
}
