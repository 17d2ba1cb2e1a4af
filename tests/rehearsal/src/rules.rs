//! Rules of Google's services that the rehearsal applies, each with its source and the test that covers it.

/// A rule of Google's services, with its source and the test that covers it.
pub struct RequestRule {
    /// Short name of the rule, for references.
    pub name: &'static str,
    pub rule: &'static str,
    /// Page of Google's documentation by title, issue, or public data set.
    pub source: &'static str,
    /// Test of this crate, of the stand-ins or of their clients, or `rehearsal` for the run itself.
    pub test: &'static str,
}

const fn rule(
    name: &'static str,
    rule: &'static str,
    source: &'static str,
    test: &'static str,
) -> RequestRule {
    RequestRule { name, rule, source, test }
}

pub const RULES: [RequestRule; 52] = [
    rule(
        "additive",
        "a request is allowed if a grant on the resource or its project has the permission and its condition holds",
        "Understanding allow policies",
        "a_grant_applies_to_its_member_on_its_resource_and_its_child_resources",
    ),
    rule(
        "condition",
        "a condition that reads a missing attribute is false",
        "Overview of IAM Conditions",
        "the_condition_forms_of_infra_are_evaluated_and_all_others_are_errors",
    ),
    rule(
        "extract",
        "`resource.name.extract` is the text at the variable of its template, and empty if the name does not match the template. Google's page was not available in full; conditions of public projects have the same form",
        "Attribute reference for IAM Conditions",
        "the_condition_forms_of_infra_are_evaluated_and_all_others_are_errors",
    ),
    rule(
        "roles",
        "roles have the permissions that Google's API returns",
        "darkbitio/gcp-iam-role-permissions, roles",
        "unknown_roles_permissions_and_kinds_are_errors",
    ),
    rule(
        "create",
        "`objects.insert` checks `storage.objects.create`; without the precondition generation 0 also `storage.objects.delete`",
        "IAM permissions for JSON methods",
        "storage_methods_check_the_documented_permission",
    ),
    rule(
        "projection",
        "methods of Cloud Storage check a `getIamPolicy` permission only for the projection `full`, which no service requests",
        "IAM permissions for JSON methods",
        "storage_methods_check_the_documented_permission",
    ),
    rule(
        "taken",
        "no page states whether the permission to overwrite or the precondition is checked first, so the stand-in rejects the creation of an existing name with 412 in one rehearsal and with 403 in another",
        "none found",
        "rehearsal",
    ),
    rule(
        "list",
        "`objects.list` checks `storage.objects.list` on the bucket, where only the request's prefix identifies objects",
        "Attribute reference for IAM Conditions",
        "a_list_is_checked_on_the_bucket_with_its_prefix",
    ),
    rule(
        "absent",
        "a read of an absent object returns 403 to callers that may not list the bucket",
        "issue bigquery-dlp-remote-function #70",
        "rehearsal",
    ),
    rule(
        "absent-prefix",
        "no page states whether a read or a removal of an absent object returns 404 or 403 to callers that may list below a prefix only: both are rehearsed",
        "none found",
        "rehearsal",
    ),
    rule(
        "retention",
        "an object younger than its bucket's retention cannot be removed: 403",
        "Bucket Lock",
        "permanent_failures_are_returned_without_retries",
    ),
    rule(
        "source",
        "no page states whether a load whose caller may not read its sources is refused with 403, or fails as a job with `accessDenied`: both are rehearsed, and each row is loaded once",
        "none found",
        "rehearsal",
    ),
    rule(
        "session",
        "the URL of a resumable upload needs no credentials",
        "Resumable uploads",
        "storage_methods_check_the_documented_permission",
    ),
    rule(
        "chunks",
        "a resumable upload keeps whole units of 256 KiB, and returns 404 after its cancel and 410 after a week; its precondition is checked at the start and at the end",
        "Resumable uploads",
        "a_resumable_upload_keeps_whole_units_until_it_is_cancelled_or_a_week_old",
    ),
    rule(
        "bucket-lock",
        "an account that may update a bucket can remove the bucket's retention, which is not locked: no account has this permission",
        "Bucket Lock",
        "a_grant_beyond_a_boundary_is_found",
    ),
    rule(
        "publish",
        "`topics.publish` checks `pubsub.topics.publish` on the topic",
        "methods.json",
        "a_caller_without_the_permission_is_refused",
    ),
    rule(
        "pull",
        "pull and acknowledge check `pubsub.subscriptions.consume` on the subscription",
        "Access control with IAM (Pub/Sub)",
        "rehearsal",
    ),
    rule(
        "push",
        "a push carries a token that Pub/Sub's service agent creates: `iam.serviceAccounts.getOpenIdToken` on the push account",
        "Authentication for push subscriptions",
        "rehearsal",
    ),
    rule(
        "dead-letters",
        "Pub/Sub's service agent forwards dead letters with publish on their topic and consume on the source",
        "Dead-letter topics",
        "a_rejected_message_is_pushed_again_and_finally_forwarded_if_the_agent_has_permission",
    ),
    rule(
        "dead-letter-count",
        "a message may be delivered a few times more than the maximum, and forwarded twice; a message has a delivery attempt number only if its subscription has a dead-letter topic",
        "reference of DeadLetterPolicy",
        "the_number_of_deliveries_before_a_dead_letter_is_approximate_and_some_are_forwarded_twice",
    ),
    rule(
        "deadline",
        "a message without an acknowledgement at its deadline is delivered again, while its first delivery may be in progress; a late acknowledgement may have no effect",
        "reference of Subscription.ackDeadlineSeconds",
        "a_message_is_delivered_again_at_its_deadline_while_its_first_delivery_is_in_progress",
    ),
    rule(
        "propagation",
        "a new grant takes effect only after minutes: a service retries the 403 of an operation that a new grant will allow",
        "Access change propagation",
        "a_new_grant_takes_effect_after_its_delay",
    ),
    rule(
        "timeout",
        "a request is answered with 504 at the timeout of its service; the container receives no signal and may continue",
        "Configure request timeout for services",
        "a_container_continues_after_the_timeout_of_its_request",
    ),
    rule(
        "invoke",
        "Cloud Run checks `run.routes.invoke` on the service before the container: 401 without a valid token, 403 for an account without the permission",
        "Access control with IAM (Cloud Run)",
        "a_request_needs_a_valid_token_of_an_invoker",
    ),
    rule(
        "audience",
        "a token's audience is the URL of the service without a path; a user's token from `gcloud auth print-identity-token` has the audience of gcloud",
        "Authenticating service-to-service; Authenticate developers",
        "the_audience_is_the_url_of_the_service",
    ),
    rule(
        "signature",
        "a token is signed with RS256 by Google's key",
        "Authentication for push subscriptions",
        "a_token_is_valid_only_with_the_signature_of_google",
    ),
    rule(
        "claims",
        "a token has Google as its issuer, a verified address, and an expiry in the future",
        "Authentication for push subscriptions",
        "a_token_is_valid_only_from_google_until_its_expiry_with_a_verified_address",
    ),
    rule(
        "removed-signature",
        "the container receives the token with its signature replaced by `SIGNATURE_REMOVED_BY_GOOGLE`, so the container cannot verify the token",
        "Troubleshoot Cloud Run",
        "the_container_receives_the_claims_without_the_signature",
    ),
    rule(
        "ingress",
        "a service with internal ingress returns 404 to callers other than Pub/Sub and Cloud Scheduler of its project; this is checked before the token",
        "Restrict network ingress for Cloud Run",
        "ingress_is_checked_before_the_token",
    ),
    rule(
        "schedule",
        "Cloud Scheduler's service agent creates the token of a job's account",
        "Use authentication with HTTP targets",
        "rehearsal",
    ),
    rule(
        "builds",
        "builds check `cloudbuild.builds.create`, `get`, `list`, and `update` for a cancel, on the project",
        "methods.json",
        "build_methods_check_the_project_and_the_account",
    ),
    rule(
        "substitutions",
        "each substitution of a build must be used, and each used substitution must be defined, unless the build is `ALLOW_LOOSE`. It is not documented whether `automapSubstitutions` uses a substitution: the rehearsal does not treat it as used, which is stricter",
        "GoogleCloudPlatform/cloud-build-local, validate/validate.go",
        "unused_and_missing_substitutions_are_refused",
    ),
    rule(
        "listing",
        "a list of builds may omit a new build; no page states the maximum delay",
        "none found",
        "no_second_build_is_created_while_the_outcome_is_unknown",
    ),
    rule(
        "acting",
        "a build with an account needs `iam.serviceAccounts.actAs` on this account; a build without an account needs it on the default account",
        "Configure user-specified service accounts",
        "build_methods_check_the_project_and_the_account",
    ),
    rule(
        "pool",
        "a build in a private pool needs `cloudbuild.workerpools.use`. The page does not state whether the caller or the build's account needs this permission: the rehearsal requires it of the caller",
        "Private pools overview",
        "build_methods_check_the_project_and_the_account",
    ),
    rule(
        "build-quota",
        "builds wait as `QUEUED` for processors of the default pool; a build whose machine exceeds the quota is refused with 400 FAILED_PRECONDITION, requests beyond their quota with 429",
        "Quotas and limits (Cloud Build); issues google-github-actions/deploy-cloudrun#480, GoogleCloudPlatform/cloud-code-samples#95",
        "a_build_is_queued_for_processors_and_a_machine_above_the_quota_is_an_infrastructure_failure",
    ),
    rule(
        "build-logs",
        "a build with an account names a bucket for its logs; it creates the log object. It is not documented whether it reads the bucket and rewrites the object: both are rehearsed",
        "Store and view build logs",
        "rehearsal",
    ),
    rule(
        "build-source",
        "a build reads its source and writes its artifacts as its account",
        "Configure user-specified service accounts",
        "rehearsal",
    ),
    rule(
        "jobs",
        "a job checks `bigquery.jobs.create` on the project, a load `bigquery.tables.updateData` and the caller's read of each source, a query `bigquery.tables.getData`; reading a job checks `bigquery.jobs.get`, except of the caller's own jobs",
        "Method: jobs.insert; Loading data from Cloud Storage",
        "warehouse_methods_check_project_and_dataset",
    ),
    rule(
        "secrets",
        "a service reads the secrets of its environment with its own account when it starts",
        "Configure secrets for services",
        "rehearsal",
    ),
    rule(
        "keys",
        "resources with a customer-managed key are encrypted and decrypted by their service's agent, never by the caller",
        "Use customer-managed encryption keys (of each service)",
        "rehearsal",
    ),
    rule(
        "instances",
        "a service returns 429 while each instance processes its maximum number of requests",
        "Maximum instances for services; Troubleshoot Cloud Run",
        "a_request_beyond_the_maximum_of_the_instances_is_refused",
    ),
    rule(
        "build-secrets",
        "Cloud Build reads the secrets in `availableSecrets` with the build's account before the first step",
        "Use secrets from Secret Manager",
        "rehearsal",
    ),
    rule(
        "names",
        "an object's name has 1 to 1,024 bytes and no line break, and is neither `.` nor `..`: otherwise 400",
        "About Cloud Storage objects",
        "an_object_with_an_invalid_name_is_refused",
    ),
    rule(
        "pages",
        "an empty page of a list may contain a token for the next page",
        "Objects: list",
        "more_names_than_fit_a_page_are_listed",
    ),
    rule(
        "rate",
        "writes of one name within a second are refused with 429, even if an object of that name exists",
        "Quotas & limits (Cloud Storage)",
        "a_rate_limited_name_is_read_back",
    ),
    rule(
        "message-limits",
        "a message has data or an attribute, at most 10 MB and 100 attributes, keys of at most 256 bytes and values of at most 1,024",
        "Quotas and limits (Pub/Sub)",
        "a_message_beyond_the_limits_is_refused",
    ),
    rule(
        "build-limits",
        "a build has at most 300 steps and 200 substitutions, keys of at most 100 bytes, values of at most 4,000 bytes and a timeout of at most 24 h; its log bucket contains no substitution",
        "Quotas and limits (Cloud Build); GoogleCloudPlatform/cloud-build-local, validate/validate.go and issue #114",
        "a_build_beyond_the_limits_is_refused",
    ),
    rule(
        "job-ids",
        "a job id can be used once in a project and location, regardless of the job's outcome",
        "Jobs overview; JobReference",
        "an_id_can_be_used_once_regardless_of_its_jobs_result",
    ),
    rule(
        "loads",
        "a load appends all rows or none; unknown and missing fields, values of another type, absent sources and the quota of a table end it with a reason",
        "Error messages (BigQuery); Loading JSON data; Quotas and limits (BigQuery)",
        "a_load_appends_all_rows_or_none_with_a_reason",
    ),
    rule(
        "processor",
        "Cloud Run may allocate no CPU to a container between requests: the rehearsal runs once with and once without polls of builds and clusters between requests",
        "Billing settings for services (request-based billing)",
        "rehearsal",
    ),
    rule(
        "reserved",
        "`/healthz` of a service is not reachable from the Internet: Google's front end answers 404",
        "Known issues in Cloud Run (reserved URL paths)",
        "the_health_check_is_not_reachable_from_the_internet",
    ),
];
