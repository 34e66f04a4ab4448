// Package safehttp makes requests to URLs that strangers supply: webhooks, and files
// that a message refers to. No other package makes such requests.
//
// One decision function ([Policy.CheckURL], [Policy.CheckAddr]) is called three times:
// when a URL is registered, for the results of the one lookup of its name that an
// attempt makes, and at the moment of the connect, which goes to the address that
// was checked. No name is resolved twice, no redirect is followed, and no proxy is
// taken from the environment.
package safehttp
