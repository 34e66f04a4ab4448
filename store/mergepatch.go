package store

import "maps"

// MergePatch returns target changed by a JSON merge patch (RFC 7396): a nil member of patch
// removes that of target, objects merge recursively, and any other value replaces. It changes
// neither and may share values with both. The result is target itself for an empty patch, and
// nil when no member is left.
func MergePatch(target, patch map[string]any) map[string]any {
	if len(patch) == 0 {
		return target
	}
	if merged := mergePatch(target, patch); len(merged) > 0 {
		return merged
	}
	return nil
}

func mergePatch(target, patch map[string]any) map[string]any {
	merged := make(map[string]any, len(target)+len(patch))
	maps.Copy(merged, target)
	for name, value := range patch {
		switch value := value.(type) {
		case nil:
			delete(merged, name)
		case map[string]any:
			object, _ := merged[name].(map[string]any)
			merged[name] = mergePatch(object, value)
		default:
			merged[name] = value
		}
	}
	return merged
}
