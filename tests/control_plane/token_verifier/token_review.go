package main

import (
	"encoding/json"
	"log"
	"net/http"

	authentication "k8s.io/api/authentication/v1"
	"sigs.k8s.io/aws-iam-authenticator/pkg/token"
)

const username = "cloud-map-sync"

// reviewer answers TokenReviews as an EKS cluster does that has one access
// entry: roleARN, mapped to group.
type reviewer struct {
	verifier token.Verifier
	roleARN  string
	group    string
}

func (r *reviewer) ServeHTTP(response http.ResponseWriter, request *http.Request) {
	var review authentication.TokenReview
	if err := json.NewDecoder(request.Body).Decode(&review); err != nil {
		http.Error(response, "not a TokenReview: "+err.Error(), http.StatusBadRequest)
		return
	}
	if review.APIVersion != "authentication.k8s.io/v1" || review.Kind != "TokenReview" {
		http.Error(response, "not a TokenReview of authentication.k8s.io/v1", http.StatusBadRequest)
		return
	}
	review.Status = r.authenticate(review.Spec.Token)
	review.Spec = authentication.TokenReviewSpec{}
	response.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(response).Encode(review); err != nil {
		log.Printf("answering a TokenReview: %v", err)
	}
}

func (r *reviewer) authenticate(bearer string) authentication.TokenReviewStatus {
	identity, err := r.verifier.Verify(bearer)
	if err != nil {
		return refuse(err.Error())
	}
	if identity.CanonicalARN != r.roleARN {
		return refuse(identity.CanonicalARN + " is not mapped")
	}
	return authentication.TokenReviewStatus{
		Authenticated: true,
		User:          authentication.UserInfo{Username: username, UID: identity.UserID, Groups: []string{r.group}},
	}
}

func refuse(reason string) authentication.TokenReviewStatus {
	log.Printf("token refused: %s", reason)
	return authentication.TokenReviewStatus{Error: reason}
}
