// Package safehttp makes requests to URLs that clients supply: webhooks, and files
// that a message refers to. No other package makes such requests.
//
// The policy ([Policy.CheckURL], [Policy.CheckAddr]) decides three times: when a URL is
// registered, for the addresses that an attempt resolves, and when it connects, to an address
// that was checked. An attempt resolves a name only once. The package follows no redirects and
// does not use proxies from the environment.
package safehttp
