package redis

// CheckURL returns an error if [Config].URL is not valid. It connects to nothing. The error may
// contain parts of the URL.
func CheckURL(url string) error {
	_, err := parseURL(url)
	return err
}
