// Decodes what kustomize makes of deploy/ strictly, with the Kubernetes API's own types: an unknown or a doubled field is an error.
//
// Reads standard input, prints the DaemonSet as the API would keep it. Must not: know what is wanted of it (test_recipes.py).
package main

import (
	"encoding/json"
	"io"
	"log"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	kubernetes "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

func main() {
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		log.Fatal(err)
	}
	text, err = yaml.YAMLToJSONStrict(text)
	if err != nil {
		log.Fatal(err)
	}
	// As the API server does: encoding/json takes a field in any case.
	var decoded appsv1.DaemonSet
	strict, err := kubernetes.UnmarshalStrict(text, &decoded)
	if err != nil || len(strict) > 0 {
		log.Fatal(err, strict)
	}
	if err := json.NewEncoder(os.Stdout).Encode(decoded); err != nil {
		log.Fatal(err)
	}
}
