// Package safehttp makes requests to URLs that strangers supply: webhooks, and files
// that a message only points to. It is the only way out to such URLs.
//
// One decision function ([Policy.CheckURL], [Policy.CheckAddr]) is asked three times:
// when a URL is registered, for the answers of the one look-up of its name that an
// attempt makes, and at the moment of the connect, which goes to the very address that
// was looked at. Nothing is resolved twice, no redirect is followed, and no proxy is
// taken from the environment.
package safehttp
